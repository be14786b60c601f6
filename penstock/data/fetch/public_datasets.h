// The table of public data sets that `penstock data fetch` knows, for corpora and for tasks: their
// addresses, and the checksums that their publishers or others give. It fetches nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "penstock/data/sha.h"

namespace penstock {

struct PublicDataset {
  std::string_view name;
  std::string_view summary;
  /// The name of the downloaded file.
  std::string_view file;
  /// Tried in this order; all should serve the same bytes.
  std::vector<std::string_view> urls;
  std::string_view url_source;
  /// Size and checksum of the file; 0 and "" if no source that can be cited states them.
  std::uint64_t bytes = 0;
  ShaKind sum_kind = ShaKind::kSha256;
  std::string_view sum;
  std::string_view sum_source;
  /// Whether the project itself has fetched these bytes from the first address; otherwise the entry
  /// repeats what its sources say and is called unverified.
  bool fetched = false;
  /// For an archive, the members to keep instead of the archive, each at this path. A member's path
  /// in the archive ends in the path here.
  std::vector<std::string_view> members = {};
  /// "" if the source states none.
  std::string_view licence = {};
  /// The command that uses the data set: FILE stands for the file, DIR for its folder.
  std::string_view prepare;
};

std::span<const PublicDataset> public_datasets();

/// The data set of that name. Throws Error for an unknown name; the error lists the known ones.
const PublicDataset& public_dataset(std::string_view name);

/// Whether the table has a data set of that name.
bool is_public_dataset(std::string_view name);

}  // namespace penstock
