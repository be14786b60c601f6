// The text of Debian packages as documents with domains.
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

/// A row of the table and the file that serves it.
struct PackageSource {
  TextPackage text;
  PackageFile file;
};

struct PackageDocuments {
  /// By domain, each domain's in an order drawn from the seed.
  std::vector<Document> documents;
  std::vector<PackageUse> packages;
};

struct ReadPackagesOptions {
  std::uint64_t seed = 0;
  /// How much to take of each domain at most, chosen by seed.
  std::uint64_t domain_bytes = 0;
  /// Requests for Comments (usr/share/doc/RFC) are looked for below this folder.
  std::string root = "/";
};

/// Text that is_usable_text() of what the table takes of each package, and the domain "rfc" where
/// the machine has the Requests for Comments. Throws Error naming the file where a package is
/// damaged. Memory: domain_bytes of each domain, and the largest member.
PackageDocuments read_packages(std::span<const PackageSource> sources,
                               const ReadPackagesOptions& options,
                               const std::function<void(std::string_view)>& progress = {});

}  // namespace penstock
