// Which Debian packages hold text worth training on, what of them, and under which licences. A
// package more is one row; where the files come from and how they are read is not decided here.
#pragma once

#include <string>
#include <vector>

namespace penstock {

/// How a member becomes documents.
enum class PackageForm {
  kCode,  // one document, but for files so large that they are generated tables
  kText,  // as it is; a long one is cut into several documents
  kMan,   // a manual page in roff: its text
};

/// Some members of a package.
struct PackageText {
  std::string domain;
  PackageForm form;
  /// fnmatch() patterns of paths without leading "/" and without compression suffix.
  std::vector<std::string> members;
};

struct TextPackage {
  /// A '*' stands for a version, of which the newest is taken: "linux-source-*".
  std::string name;
  /// The main licence; its usr/share/doc/NAME/copyright has every one.
  std::string licence;
  /// The first that takes a member has it.
  std::vector<PackageText> texts;
  /// A pattern of the archive within the package that holds the members, if not the package itself.
  std::string archive = {};
};

/// All of them, by name, each name once.
std::vector<TextPackage> text_packages();

}  // namespace penstock
