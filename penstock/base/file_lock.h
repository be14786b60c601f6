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

  /// Whether the file's folder is still at its path. It is not after this folder or one above it
  /// was deleted, moved or replaced. Where only the file was deleted or replaced, locks the file of
  /// its name anew; throws Error if another process has locked that one. Cost: two calls of stat.
  bool keep();

 private:
  FileLock() = default;
  int open_locked(const std::string& otherwise) const;

  std::string path_;
  // Both stay open: the system gives the inode of an open file or folder to no other one.
  int folder_ = -1, descriptor_ = -1;
};

}  // namespace penstock
