// The table of Debian packages with text worth training on: which members to take, and the
// licences. A new package is one row. The table does not say where the files come from or how they
// are read.
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
  /// The main licence; the package's usr/share/doc/NAME/copyright lists all of them.
  std::string licence;
  /// A member belongs to the first entry with a pattern that matches it.
  std::vector<PackageText> texts;
  /// A pattern of the archive in the package that holds the members; empty: the package itself.
  std::string archive = {};
};

/// All packages, sorted by name; names differ.
std::vector<TextPackage> text_packages();

}  // namespace penstock
