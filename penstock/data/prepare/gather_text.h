// The text that `penstock data prepare --system` gathers by itself, with --more or without, and how
// much of each domain stays.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/corpus/documents.h"
#include "penstock/data/packages/package_use.h"

namespace penstock {

struct GatherOptions {
  std::uint64_t seed = 0;
  /// Folder below which the machine's own text is searched.
  std::string root = "/";
  /// Take the packages of packages/package_table.h too.
  bool more = false;
  /// Folder with the packages' .deb files; empty: they are downloaded into package_cache().
  std::string packages = {};
};

struct GatheredText {
  std::vector<Document> documents;
  std::vector<PackageUse> packages;
  std::vector<std::string> notes;
};

/// Throws Error if packages are requested and none can be fetched, or if one is damaged.
GatheredText gather_text(const GatherOptions& options,
                         const std::function<void(std::string_view)>& progress);

/// Bytes of text by domain.
std::map<std::string, std::int64_t> domain_bytes(const std::vector<Document>& documents);

/// Keeps the first of each domain's documents, up to some MB (`more`: more), and drops domains that
/// are too small.
/// @param found  the domains before near-duplicates were removed
/// Returns notes on what was dropped. Throws Error where nothing is left.
std::vector<std::string> limit_domains(std::vector<Document>& documents,
                                       const std::map<std::string, std::int64_t>& found, bool more);

}  // namespace penstock
