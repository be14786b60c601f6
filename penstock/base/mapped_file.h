// A file mapped into memory for reading. If a page no longer exists, because another process
// truncated the file or the disk failed, reading it ends the process by SIGBUS. The handler of
// mapped_file_fault.h then names the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "penstock/base/file_stamp.h"

namespace penstock {

/// Owns the mapping. An empty file has an empty span.
class MappedFile {
 public:
  /// Throws Error with the path if it is not a readable regular file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), stamp_(other.stamp_) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(stamp_, other.stamp_);
    return *this;
  }
  ~MappedFile();
  std::span<const std::byte> bytes() const { return bytes_; }
  /// The file's stamp when it was mapped.
  const FileStamp& stamp() const { return stamp_; }

 private:
  std::span<const std::byte> bytes_;
  FileStamp stamp_;
};

/// Lets the system free the memory of mapped pages that are wholly within `part`. The pages are
/// read again at the next access. It is for files larger than memory whose bytes are read once.
void release_pages(std::span<const std::byte> part);

}  // namespace penstock
