// Gathers the text for `penstock data prepare --system`, with or without --more, and limits the
// size of each domain.
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
  /// Whether to take the packages of packages/package_table.h too.
  bool more = false;
  /// Folder with the packages' .deb files; empty: downloads them into package_cache().
  std::string packages = {};
};

struct GatheredText {
  std::vector<Document> documents;
  std::vector<PackageUse> packages;
  std::vector<std::string> notes;
};

/// Reads the machine's own text and, if requested, that of the packages. Throws Error if packages
/// are requested and none can be fetched, or if one is damaged.
GatheredText gather_text(const GatherOptions& options,
                         const std::function<void(std::string_view)>& progress);

/// Bytes of text by domain.
std::map<std::string, std::int64_t> domain_bytes(const std::vector<Document>& documents);

/// Keeps the first documents of each domain, up to some MB (a higher limit with `more`), and drops
/// domains that are too small.
/// @param found  bytes by domain before near-duplicates were removed
/// Returns notes on what was dropped. Throws Error if nothing is left.
std::vector<std::string> limit_domains(std::vector<Document>& documents,
                                       const std::map<std::string, std::int64_t>& found, bool more);

}  // namespace penstock
