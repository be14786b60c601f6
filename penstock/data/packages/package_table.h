// The table of Debian packages with text worth training on: which members to take, and the
// licences. A new package is one row. Where the files come from and how they are read is not
// decided here.
#pragma once

#include <string>
#include <vector>

namespace penstock {

/// How a member becomes documents.
enum class PackageForm {
  kCode,  // one document; files so large that they must be generated tables are skipped
  kText,  // the text unchanged; a long text is cut into several documents
  kMan,   // the text of a manual page in roff
};

/// Some members of a package.
struct PackageText {
  std::string domain;
  PackageForm form;
  /// fnmatch() patterns of paths without leading "/" and without compression suffix.
  std::vector<std::string> members;
};

struct TextPackage {
  /// A '*' stands for a version; the newest is taken: "linux-source-*".
  std::string name;
  /// The main licence; its usr/share/doc/NAME/copyright has every one.
  std::string licence;
  /// The first entry whose patterns match a member takes it.
  std::vector<PackageText> texts;
  /// A pattern of the archive within the package that holds the members, if not the package itself.
  std::string archive = {};
};

/// All packages, sorted by name, each name once.
std::vector<TextPackage> text_packages();

}  // namespace penstock
