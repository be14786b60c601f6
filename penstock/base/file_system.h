// The file operations for durable writing, as an interface, so that tests can drop unsynced writes,
// interrupt renames and fill the disk. It is not a general file library: MappedFile reads large
// files. atomic_files.h builds atomic files and directories on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/error.h"

namespace penstock {

using Bytes = std::span<const std::byte>;

inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// The device or the quota is full; the message says "disk full" and names the file.
class DiskFullError : public Error {
 public:
  using Error::Error;
};

/// A file open for writing. The destructor closes it without sync and without reporting errors.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  /// Writes all bytes or throws; then some of the first bytes may have been written.
  virtual void write(Bytes bytes) = 0;
  /// Returns once everything written is on the device.
  virtual void sync() = 0;
  /// Closes the file and throws errors of delayed writes. No other call may follow.
  virtual void close() = 0;
};

enum class OpenMode { kTruncate, kAppend };

/// File operations. Every failure throws Error (DiskFullError if the disk is full) with the path.
class FileSystem {
 public:
  using Path = std::filesystem::path;
  virtual ~FileSystem() = default;
  virtual std::unique_ptr<OutputFile> open(const Path& path, OpenMode mode) = 0;
  /// Renames atomically; replaces a file at `to`. The renaming is durable after sync_directory() of
  /// the parent.
  virtual void rename(const Path& from, const Path& to) = 0;
  /// Makes the directory's entries durable.
  virtual void sync_directory(const Path& path) = 0;
  /// Creates one directory whose parent exists; false if it exists already.
  virtual bool create_directory(const Path& path) = 0;
  /// Removes a file or a whole directory, if it exists.
  virtual void remove_all(const Path& path) = 0;
  /// Names in the directory, sorted; throws Error if it is not a directory.
  virtual std::vector<std::string> list(const Path& path) = 0;
  virtual bool exists(const Path& path) = 0;
  virtual std::uint64_t size(const Path& path) = 0;
  /// The whole file; throws Error if it is longer than `limit` bytes.
  virtual std::string read(const Path& path, std::uint64_t limit = std::uint64_t{1} << 30) = 0;
};

/// The operating system's files.
FileSystem& real_file_system();

/// Creates the directory (or a link's target) and missing parents; each entry is durable.
void create_directories(FileSystem& fs, const std::filesystem::path& path);

/// The directory that holds `path` ("." for a bare name).
std::filesystem::path parent_directory(const std::filesystem::path& path);

}  // namespace penstock
