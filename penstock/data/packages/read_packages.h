// Reads the text of Debian packages as documents with domains.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/corpus/documents.h"
#include "penstock/data/packages/package_files.h"
#include "penstock/data/packages/package_table.h"
#include "penstock/data/packages/package_use.h"

namespace penstock {

/// A row of the table and the package's file.
struct PackageSource {
  TextPackage text;
  PackageFile file;
};

struct PackageDocuments {
  /// Grouped by domain; within a domain, in an order drawn from the seed.
  std::vector<Document> documents;
  std::vector<PackageUse> packages;
};

struct ReadPackagesOptions {
  std::uint64_t seed = 0;
  /// The most bytes to take of each domain; the seed chooses which.
  std::uint64_t domain_bytes = 0;
  /// Requests for Comments (usr/share/doc/RFC) are looked for below this folder.
  std::string root = "/";
};

/// Reads the members that the table lists for each package, if is_usable_text() accepts them, and
/// the domain "rfc" if the machine has the Requests for Comments. Throws Error with the file's name
/// if a file is damaged. Memory: domain_bytes of each domain, and the largest member.
PackageDocuments read_packages(std::span<const PackageSource> sources,
                               const ReadPackagesOptions& options,
                               const std::function<void(std::string_view)>& progress = {});

}  // namespace penstock
