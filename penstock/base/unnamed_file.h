// A file without a name, for data that is larger than memory and needed only while the process
// runs. The system removes it when the object is destroyed or the process ends in any way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "penstock/base/file_system.h"

namespace penstock {

class UnnamedFile {
 public:
  /// @param folder   where the file is made
  /// @param content  what it holds, in the plural, for errors: "tokens"
  /// Throws Error if no file can be made there.
  UnnamedFile(std::filesystem::path folder, std::string content);
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;
  ~UnnamedFile();

  std::uint64_t size() const { return size_; }
  /// Throws DiskFullError if the disk is full.
  void append(Bytes bytes);
  /// Reads the file's bytes from `begin` on, as many as fit into `to` and are there. Returns their
  /// number.
  std::size_t read(std::uint64_t begin, std::span<std::byte> to) const;
  /// Maps `bytes` bytes from `begin` on, for as long as this object lives. The range may end behind
  /// the end of the file; there, only bytes that have been appended may be read.
  /// REQUIRES: `begin` is a multiple of page_bytes().
  Bytes map(std::uint64_t begin, std::uint64_t bytes);
  static std::uint64_t page_bytes();

 private:
  [[noreturn]] void fail_to(const std::string& action, int code) const;

  std::filesystem::path folder_;
  std::string content_;
  std::uint64_t size_ = 0;
  std::vector<Bytes> mappings_;
  int file_ = -1;
};

}  // namespace penstock
