// What durable writing needs from the system, as an interface, so that tests can drop unsynced
// writes, tear renames and fill the disk. Not a general file library: reading large files goes
// through MappedFile. Atomic files and directories are built on this in atomic_files.h.
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

/// A file open for writing. Destroying it closes without sync and without report.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  /// Writes everything or throws; on a throw some leading bytes may have been written.
  virtual void write(Bytes bytes) = 0;
  /// Returns once everything written is on the device.
  virtual void sync() = 0;
  /// Closes and reports errors that writing back left; nothing may follow.
  virtual void close() = 0;
};

enum class OpenMode { kTruncate, kAppend };

/// File operations; every failure throws Error (DiskFullError where space is missing) with the
/// path.
class FileSystem {
 public:
  using Path = std::filesystem::path;
  virtual ~FileSystem() = default;
  virtual std::unique_ptr<OutputFile> open(const Path& path, OpenMode mode) = 0;
  /// Atomic; replaces a file at `to`. What was renamed is durable after sync_directory of the
  /// parent.
  virtual void rename(const Path& from, const Path& to) = 0;
  /// Makes the directory's entries durable.
  virtual void sync_directory(const Path& path) = 0;
  /// Creates one directory whose parent exists; false if it exists already.
  virtual bool create_directory(const Path& path) = 0;
  /// Removes a file or a whole directory; nothing there is no error.
  virtual void remove_all(const Path& path) = 0;
  /// Names in the directory, sorted; throws when it is no directory.
  virtual std::vector<std::string> list(const Path& path) = 0;
  virtual bool exists(const Path& path) = 0;
  virtual std::uint64_t size(const Path& path) = 0;
  /// The whole file; throws Error when it is longer than `limit` bytes.
  virtual std::string read(const Path& path, std::uint64_t limit = std::uint64_t{1} << 30) = 0;
};

/// The operating system's files.
FileSystem& real_file_system();

/// Creates the directory, where a link leads too, and missing parents; each entry is durable.
void create_directories(FileSystem& fs, const std::filesystem::path& path);

/// The directory that holds `path` ("." for a bare name).
std::filesystem::path parent_directory(const std::filesystem::path& path);

}  // namespace penstock
