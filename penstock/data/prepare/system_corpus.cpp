// Lists the folders of the domains and reads a seeded choice of their files.
#include "penstock/data/prepare/system_corpus.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "penstock/base/checksum.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/lines.h"
#include "penstock/base/random.h"
#include "penstock/data/files_below.h"
#include "penstock/data/packages/usable_text.h"
#include "penstock/data/text_files.h"
#include "penstock/data/utf8.h"

namespace penstock {
namespace {

namespace files = std::filesystem;

struct Source {
  /// A pattern of folders below the root. Its components may end in '*'.
  std::string_view folders;
  bool (*takes)(std::string_view name);
};

struct Domain {
  std::string_view name;
  std::vector<Source> sources;
  /// Returns the part of a file's text that belongs to the domain; "" for none.
  std::string (*extract)(std::string text);
};

bool is_header(std::string_view name) {
  return name.ends_with(".h") || name.ends_with(".hpp") || name.ends_with(".tcc") ||
         name.find('.') == name.npos;
}
bool is_perl(std::string_view name) { return name.ends_with(".pm") || name.ends_with(".pl"); }
bool is_pod(std::string_view name) { return is_perl(name) || name.ends_with(".pod"); }
bool is_cmake(std::string_view name) { return name.ends_with(".cmake") || name.ends_with(".rst"); }
bool is_python(std::string_view name) { return name.ends_with(".py"); }
bool is_prose(std::string_view name) {
  return name == "copyright" || name.starts_with("changelog") || name.starts_with("README") ||
         name.starts_with("NEWS");
}
bool is_licence(std::string_view name) { return !name.starts_with('.'); }

std::string everything(std::string text) { return text; }
/// Leaves out generated files. ATen's thousands of generated headers differ in little but names,
/// and would crowd out other files.
std::string hand_written(std::string text) { return is_generated(text) ? std::string() : text; }

/// The lines inside POD blocks (perlpod: from "=word" to "=cut"), or the lines outside.
std::string pod_lines(std::string_view text, bool inside) {
  std::string out;
  bool pod = false;
  for_each_line(text, [&](std::string_view line, std::size_t) {
    const bool command =
        line.size() > 1 && line[0] == '=' && std::isalpha(static_cast<unsigned char>(line[1]));
    const bool cut = line.starts_with("=cut");
    if (command && !cut) pod = true;
    if (pod == inside && !cut) out += line;
    if (cut) pod = false;
  });
  return out;
}
std::string perl_code(std::string text) { return pod_lines(text, false); }
std::string perl_manual(std::string text) { return pod_lines(text, true); }

std::vector<Domain> domains() {
  const auto headers = [](std::string_view folders) { return Source{folders, is_header}; };
  std::vector<Source> perl, pod;
  for (const char* folders : {"usr/share/perl*", "usr/lib/*/perl*"}) {
    perl.push_back({folders, is_perl});
    pod.push_back({folders, is_pod});
  }
  return {
      {"cpp",
       {headers("usr/include/c++"), headers("usr/include/torch"), headers("usr/include/ATen"),
        headers("usr/include/c10"), headers("usr/include/nlohmann"), headers("usr/include/fmt"),
        headers("usr/include/CLI"), headers("usr/include/toml++"), headers("usr/include/gtest"),
        headers("usr/include/benchmark"), headers("usr/include/google"),
        headers("usr/include/gloo")},
       hand_written},
      {"perl", perl, perl_code},
      {"perl-manual", pod, perl_manual},
      {"cmake", {{"usr/share/cmake*", is_cmake}, {"usr/lib/*/cmake", is_cmake}}, everything},
      {"python", {{"usr/lib/python*", is_python}}, everything},
      {"prose",
       {{"usr/share/doc", is_prose}, {"usr/share/common-licenses", is_licence}},
       everything},
  };
}

bool matches(std::string_view name, std::string_view pattern) {
  if (!pattern.ends_with('*')) return name == pattern;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

/// The folders below `root` that fit the pattern.
void find_folders(const files::path& root, std::string_view pattern,
                  std::vector<files::path>& out) {
  const std::string_view component = pattern.substr(0, pattern.find('/'));
  const std::string_view rest =
      component.size() < pattern.size() ? pattern.substr(component.size() + 1) : std::string_view();
  std::error_code ignored;
  for (const auto& entry : files::directory_iterator(root, ignored)) {
    if (!matches(entry.path().filename().string(), component)) continue;
    // A link at the end of the pattern would give the same files twice. Links before it are
    // followed: /lib is a link on merged systems.
    if (!entry.is_directory(ignored) || (rest.empty() && entry.is_symlink(ignored))) continue;
    rest.empty() ? out.push_back(entry.path()) : find_folders(entry.path(), rest, out);
  }
}

/// The domain's files in an order drawn from the seed.
std::vector<files::path> candidates(const Domain& domain, const SystemCorpusOptions& options) {
  std::vector<files::path> found;
  for (const auto& source : domain.sources) {
    std::vector<files::path> folders;
    find_folders(options.root, source.folders, folders);
    for (const auto& folder : folders)
      for_each_file_below(folder, [&](const files::directory_entry& entry) {
        if (!source.takes(entry.path().filename().string())) return;
        std::error_code failure;
        const auto bytes = entry.file_size(failure);
        if (!failure && bytes >= kSmallestText && bytes <= kLargestCode)
          found.push_back(entry.path());
      });
  }
  std::vector<std::pair<std::uint64_t, files::path>> order;
  for (auto& path : found) {
    const std::string name = path.lexically_relative(options.root).string();
    order.emplace_back(mix64(xxh64(bytes_of(name)) ^ mix64(options.seed)), std::move(path));
  }
  std::sort(order.begin(), order.end());
  found.clear();
  for (auto& [key, path] : order) found.push_back(std::move(path));
  return found;
}

/// Adds the package descriptions of dpkg's status file. A document has several descriptions, since
/// one is too short.
void add_descriptions(const SystemCorpusOptions& options, std::vector<Document>& documents) {
  constexpr std::size_t document_bytes = 4096;
  const files::path path = options.root / "var/lib/dpkg/status";
  std::error_code ignored;
  if (!files::is_regular_file(path, ignored)) return;
  const std::string status = real_file_system().read(path);
  std::string text;
  bool inside = false;
  const auto flush = [&] {
    if (!text.empty() && find_invalid_utf8(text) == text.npos)
      documents.push_back({std::move(text), "prose", std::nullopt});
    text.clear();
  };
  for (std::size_t at = 0; at < status.size();) {
    const std::size_t end = std::min(status.find('\n', at), status.size());
    const std::string_view line = std::string_view(status).substr(at, end - at);
    at = end + 1;
    const bool begins = line.starts_with("Description: ");
    if (inside && !line.starts_with(' ')) {
      text += '\n';
      if (text.size() >= document_bytes) flush();
    }
    inside = begins || (inside && line.starts_with(' '));
    if (!inside) continue;
    // " ." stands for an empty line.
    text += begins ? line.substr(13) : line == " ." ? std::string_view() : line.substr(1);
    text += '\n';
  }
  flush();
}

}  // namespace

std::vector<std::string> system_domains() {
  std::vector<std::string> names;
  for (const auto& domain : domains()) names.emplace_back(domain.name);
  return names;
}

std::vector<Document> read_system_documents(const SystemCorpusOptions& options) {
  std::vector<Document> documents;
  for (const auto& domain : domains()) {
    std::uint64_t bytes = 0;
    for (const auto& path : candidates(domain, options)) {
      if (bytes >= options.domain_bytes) break;
      try {
        read_text_file(path.string(), [&](const std::string&, std::string_view content) {
          std::string text = domain.extract(std::string(content));
          if (!is_usable_text(text)) return;
          bytes += text.size();
          documents.push_back({std::move(text), std::string(domain.name), std::nullopt});
        });
      } catch (const Error&) {
        // An unreadable file of the machine is skipped.
      }
    }
    if (domain.name == "prose") add_descriptions(options, documents);
  }
  return documents;
}

}  // namespace penstock
