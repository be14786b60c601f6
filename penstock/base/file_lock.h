// An advisory lock on a file, for one process at a time. The system releases it when its holder
// ends in any way.
#pragma once

#include <string>

namespace penstock {

/// Holds an exclusive lock on a file, which it creates if necessary and does not remove.
/// Throws Error if another process holds the lock.
class FileLock {
 public:
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// Whether the file's folder is still at its path: false if this folder or one above it was
  /// deleted, moved or replaced. If only the file was deleted or replaced, locks the file that now
  /// has its name; throws Error if another process has locked that. Cost: two calls of stat.
  bool keep();

 private:
  FileLock() = default;
  int open_locked(const std::string& otherwise) const;

  std::string path_;
  // Both stay open: the system gives the inode of an open file or folder to no other one.
  int folder_ = -1, descriptor_ = -1;
};

}  // namespace penstock
