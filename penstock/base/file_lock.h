// One process at a time: an advisory lock that the system drops when its holder ends, however it
// ends.
#pragma once

#include <string>

namespace penstock {

/// Holds an exclusive lock on a file, which it creates and leaves in place.
/// Throws Error when another process holds it.
class FileLock {
 public:
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// Whether the path still names the locked file. It does not after the file or a folder above it
  /// was deleted, moved or replaced. Cost: two calls of stat.
  bool in_place() const;

 private:
  std::string path_;
  int descriptor_;
};

}  // namespace penstock
