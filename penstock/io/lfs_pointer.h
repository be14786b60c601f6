// Detects Git LFS pointers: short texts in place of large files that were not fetched.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "penstock/base/error.h"

namespace penstock {

/// Throws Error if the file is a Git LFS pointer.
/// @param origin  the file's path, for the message
inline void check_no_lfs_pointer(std::span<const std::byte> file, const std::string& origin) {
  constexpr std::string_view kBegin = "version https://git-lfs";
  PENSTOCK_CHECK(
      file.size() < kBegin.size() || std::memcmp(file.data(), kBegin.data(), kBegin.size()) != 0,
      origin, ": is a pointer of Git LFS, not the file itself; fetch it (`git lfs pull`)");
}

}  // namespace penstock
