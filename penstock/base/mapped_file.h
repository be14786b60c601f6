// A file mapped into memory for reading. Not for files that another process truncates meanwhile:
// touching a page that is gone ends the process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

namespace penstock {

/// Holds the mapping; an empty file gives an empty span.
class MappedFile {
 public:
  /// Throws Error, naming the path, when it is not a readable regular file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// Lets the system take back the memory of mapped pages that lie wholly within `part`. The pages
/// are read again when they are touched. For files larger than memory whose bytes are read once.
void release_pages(std::span<const std::byte> part);

}  // namespace penstock
