#include "penstock/data/packages/package_table.h"

#include <map>
#include <utility>

namespace penstock {
namespace {

using Texts = std::vector<PackageText>;

Texts code_files(std::string domain, std::vector<std::string> members) {
  return {{std::move(domain), PackageForm::kCode, std::move(members)}};
}
Texts plain_files(std::string domain, std::vector<std::string> members) {
  return {{std::move(domain), PackageForm::kText, std::move(members)}};
}
Texts man_pages(std::string domain) {
  return {{std::move(domain), PackageForm::kMan, {"*/man/*"}}};
}
/// The sources that Sphinx keeps beside the pages of a manual.
Texts sphinx(std::string domain) { return plain_files(std::move(domain), {"*/_sources/*.txt"}); }
Texts dictionary(std::string domain) {
  return plain_files(std::move(domain), {"usr/share/dictd/*.dict"});
}

std::vector<TextPackage> sources() {
  const std::string kernel = "linux-source-*/", manual = kernel + "Documentation/";
  const std::string translations = manual + "translations/";
  Texts linux_texts = code_files("c", {kernel + "*.c", kernel + "*.h"});
  const std::pair<const char*, const char*> translated[] = {
      {"chinese", "zh_"}, {"italian", "it_"}, {"japanese", "ja_"}, {"spanish", "sp_"}};
  for (const auto& [domain, folder] : translated)
    linux_texts.push_back({domain, PackageForm::kText, {translations + folder + "*.rst"}});
  linux_texts.push_back(
      {"kernel-manual", PackageForm::kText, {manual + "*.rst", manual + "*.txt"}});
  return {
      {"linux-source-*", "GPL-2.0-only", linux_texts, "usr/src/linux-source-*.tar"},
      {"golang-*-src", "BSD-3-Clause", code_files("go", {"*.go"})},
      {"openjdk-*-source", "GPL-2.0-only with Classpath exception", code_files("java", {"*.java"}),
       "*/src.zip"},
      {"rust-src", "MIT or Apache-2.0", code_files("rust", {"*.rs"})},
      {"fpc-source-*", "LGPL-2.0-or-later with linking exception, GPL-2.0-or-later",
       code_files("pascal", {"*.pas", "*.pp", "*.inc"})},
      {"emacs-el", "GPL-3.0-or-later", code_files("emacs-lisp", {"*.el"})},
      {"sbcl-source", "public domain, BSD-3-Clause", code_files("lisp", {"*.lisp"})},
      {"erlang-src", "Apache-2.0", code_files("erlang", {"*.erl", "*.hrl"})},
  };
}

std::vector<TextPackage> manuals() {
  return {
      {"python3.*-doc", "PSF-2.0", sphinx("python-manual")},
      {"perl-doc", "GPL-1.0-or-later or Artistic-1.0-Perl", plain_files("perl-manual", {"*.pod"})},
      {"git-doc", "GPL-2.0-only", plain_files("manual", {"usr/share/doc/git-doc/*.txt"})},
      {"vim-runtime", "Vim, OPUBL-1.0", plain_files("manual", {"*/doc/*.txt"})},
      {"llvm-*-doc", "Apache-2.0 with LLVM exception", sphinx("manual")},
      {"python-sqlalchemy-doc", "MIT", plain_files("manual", {"*.rst"})},
      {"sphinx-doc", "BSD-2-Clause", sphinx("manual")},
      {"buildbot-doc", "GPL-2.0-only", sphinx("manual")},
      {"nova-doc", "Apache-2.0", sphinx("manual")},
      {"neutron-doc", "Apache-2.0", sphinx("manual")},
      {"debian-policy", "GPL-2.0-or-later", sphinx("manual")},
      {"developers-reference", "GPL-2.0-or-later", sphinx("manual")},
      {"debian-reference-en", "GPL-2.0-or-later", plain_files("manual", {"*.txt"})},
      {"debian-faq", "copyleft of its own", plain_files("manual", {"*.en.txt"})},
      {"maint-guide", "GPL-2.0-or-later", plain_files("manual", {"*.en.txt"})},
      {"manpages", "Linux-man-pages-copyleft, GPL-2.0-or-later", man_pages("manual")},
      {"manpages-dev", "Linux-man-pages-copyleft, GPL-2.0-or-later", man_pages("manual")},
  };
}

std::vector<TextPackage> books() {
  std::vector<TextPackage> out = {
      {"anarchism", "GPL-2.0-only", plain_files("books", {"*/markdown/*.md"})},
      {"fortunes", "BSD, quotations", plain_files("books", {"usr/share/games/fortunes/[a-z]*"})},
      {"dict-gcide", "GPL-2.0-or-later", dictionary("english-dictionary")},
      {"dict-wn", "WordNet", dictionary("english-dictionary")},
      {"dict-foldoc", "GFDL-1.1-no-invariants-or-later", dictionary("english-dictionary")},
      {"dict-vera", "GFDL-1.1-no-invariants-or-later", dictionary("english-dictionary")},
      {"dict-jargon", "public domain", dictionary("english-dictionary")},
      {"dict-devil", "public domain", dictionary("english-dictionary")},
  };
  for (const char* pair : {"deu-eng", "eng-deu", "jpn-eng", "jpn-deu", "hun-eng", "eng-hun",
                           "epo-eng", "deu-fra", "fra-deu", "deu-spa", "deu-swe", "eng-fin",
                           "fin-eng", "eng-tur", "eng-ces", "pol-eng", "fra-spa"})
    out.push_back({std::string("dict-freedict-") + pair,
                   "GPL-2.0-or-later, GPL-3.0-or-later, AGPL-3.0-only or CC-BY-SA-3.0",
                   dictionary("bilingual-dictionary")});
  return out;
}

/// Manuals in other languages than English. Language codes are those in packages' names. A language
/// with less text than a domain's smallest size is left out. The developers' reference is left out
/// too, since its translations have the English sources.
std::vector<TextPackage> translations() {
  const std::string page = "the original's, GPL-3.0-or-later";
  struct Kind {
    char letter;
    std::string before, after, licence;
    PackageForm form;
  };
  const Kind kinds[] = {
      {'m', "manpages-", "", page, PackageForm::kMan},
      {'d', "manpages-", "-dev", page, PackageForm::kMan},
      {'r', "debian-reference-", "", "GPL-2.0-or-later", PackageForm::kText},
      {'f', "debian-faq-", "", "copyleft of its own", PackageForm::kText},
      {'g', "maint-guide-", "", "GPL-2.0-or-later", PackageForm::kText},
  };
  struct Language {
    const char *domain, *code;
    std::string_view kinds;  // letters of the kinds that exist in this language
  };
  const Language languages[] = {
      {"german", "de", "mdrfg"},   {"french", "fr", "mdrfg"}, {"spanish", "es", "mdrg"},
      {"italian", "it", "mrfg"},   {"portuguese", "pt", "r"}, {"portuguese", "pt-br", "mdr"},
      {"japanese", "ja", "mdrfg"}, {"chinese", "zh", "m"},    {"chinese", "zh-cn", "rfg"},
      {"chinese", "zh-tw", "rg"},  {"russian", "ru", "mdfg"}, {"polish", "pl", "md"},
      {"ukrainian", "uk", "m"},    {"turkish", "tr", "m"},
  };
  std::vector<TextPackage> out;
  for (const auto& [domain, code, has] : languages)
    for (const auto& kind : kinds)
      if (has.find(kind.letter) != has.npos)
        out.push_back(
            {kind.before + code + kind.after,
             kind.licence,
             {{domain, kind.form, {kind.form == PackageForm::kMan ? "*/man/*" : "*.txt"}}}});
  return out;
}

/// Packages with files for several languages.
std::vector<TextPackage> polyglots() {
  TextPackage guide{"installation-guide-amd64", "GPL-2.0-only", {}},
      debmake{"debmake-doc", "MIT", {}};
  struct Language {
    const char *domain, *guide, *debmake;
  };
  const Language languages[] = {
      {"manual", "en", "en"},     {"german", "de", "de"},     {"japanese", "ja", "ja"},
      {"chinese", "zh", "zh-"},   {"russian", "ru", "ru"},    {"french", "fr", nullptr},
      {"spanish", "es", nullptr}, {"italian", "it", nullptr}, {"portuguese", "pt", nullptr}};
  for (const auto& [domain, in_guide, in_debmake] : languages) {
    const auto add = [&, name = domain](TextPackage& package, const std::string& members) {
      package.texts.push_back({name, PackageForm::kText, {members}});
    };
    add(guide, std::string("*/install.") + in_guide + "*.txt");
    if (in_debmake) add(debmake, std::string("*/debmake-doc.") + in_debmake + "*.txt");
  }
  return {guide, debmake};
}

}  // namespace

std::vector<TextPackage> text_packages() {
  std::map<std::string, TextPackage> by_name;
  for (const auto& part : {sources(), manuals(), books(), translations(), polyglots()})
    for (const auto& package : part) by_name.emplace(package.name, package);
  std::vector<TextPackage> out;
  for (auto& [name, package] : by_name) out.push_back(std::move(package));
  return out;
}

}  // namespace penstock
