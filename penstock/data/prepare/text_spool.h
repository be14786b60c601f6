// The documents' texts while a corpus is prepared, on disk instead of in memory. token_spool.h does
// the same for tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/base/unnamed_file.h"

namespace penstock {

/// Texts in an unnamed file that is mapped into memory. The system moves pages that it needs for
/// something else to the disk, so the texts may be larger than memory.
class TextSpool {
 public:
  /// @param folder  where the file is made; it takes the bytes of all texts
  /// @param extent_bytes  how much of the file is mapped at a time; a longer text is mapped alone
  /// Throws Error if no file can be made there.
  explicit TextSpool(std::filesystem::path folder, std::uint64_t extent_bytes = 1 << 28)
      : file_(std::move(folder), "texts"), extent_bytes_(extent_bytes) {}

  /// Copies the text and returns a view of the copy, which lasts as long as this object. Throws
  /// DiskFullError if the disk is full.
  std::string_view keep(std::string_view text);
  /// Takes the texts out of this process's memory. A text is read again when it is used.
  void release() const;

 private:
  UnnamedFile file_;
  std::uint64_t extent_bytes_;
  std::vector<Bytes> extents_;    // the last one is being filled
  std::uint64_t last_begin_ = 0;  // place of the last extent in the file
};

}  // namespace penstock
