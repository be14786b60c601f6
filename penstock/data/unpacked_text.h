// The text that a packed file unpacks to, which may be larger than memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/base/unnamed_file.h"

namespace penstock {

/// Files and unpacked texts above this number of bytes are mapped and not read into memory.
inline constexpr std::uint64_t kLargeText = std::uint64_t{64} << 20;

/// A text that grows block by block. Up to kLargeText bytes it is held in memory, and above that
/// in an unnamed file.
class UnpackedText {
 public:
  /// @param folder  where the file is made; empty: all text is held in memory
  explicit UnpackedText(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Throws DiskFullError if the disk is full.
  void append(std::string_view block);
  /// The whole text. It lasts as long as this object.
  std::string_view text();

 private:
  std::filesystem::path folder_;
  std::string held_;
  std::optional<UnnamedFile> file_;
};

}  // namespace penstock
