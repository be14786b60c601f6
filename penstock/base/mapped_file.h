// A file mapped into memory for reading. Touching a page that is gone, because another process cut
// the file or its disk failed, ends the process by SIGBUS. A program that installs the handler of
// mapped_file_fault.h names the file then.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "penstock/base/file_stamp.h"

namespace penstock {

/// Holds the mapping; an empty file gives an empty span.
class MappedFile {
 public:
  /// Throws Error, naming the path, when it is not a readable regular file.
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
  /// Of the file when it was mapped.
  const FileStamp& stamp() const { return stamp_; }

 private:
  std::span<const std::byte> bytes_;
  FileStamp stamp_;
};

/// Lets the system take back the memory of mapped pages that lie wholly within `part`. The pages
/// are read again when they are touched. For files larger than memory whose bytes are read once.
void release_pages(std::span<const std::byte> part);

}  // namespace penstock
