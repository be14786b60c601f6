// A stamp of a file's state, to detect that someone wrote to it.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace penstock {

/// A file's identity, its size and the time of its last change. Two stamps of one file differ if it
/// was written to between them, unless that took less than a tick of the system's clock.
struct FileStamp {
  std::uint64_t device = 0, inode = 0;
  std::int64_t size = 0, seconds = 0, nanoseconds = 0;

  bool same_file(const FileStamp& other) const {
    return device == other.device && inode == other.inode;
  }
  bool operator==(const FileStamp&) const = default;
};

inline FileStamp file_stamp(const struct stat& info) {
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .size = info.st_size,
          .seconds = info.st_mtim.tv_sec,
          .nanoseconds = info.st_mtim.tv_nsec};
}

/// The stamp of the file at `path`; nullopt if there is none or the system does not report it.
inline std::optional<FileStamp> file_stamp(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return file_stamp(info);
}

}  // namespace penstock
