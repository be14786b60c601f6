// Advisory locks for one process at a time: on a file, and for a change of a file. The system
// releases them when their holder ends in any way.
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

/// A turn at changing a file that several processes read, change and replace: from construction to
/// destruction no other process has a turn at the same file. Waits for the other's turn to end. The
/// turn is a lock on `.NAME.lock` beside the file, or beside the target of a link, and removes it.
/// A file system without locks gives every process its turn at once.
/// Throws Error, or DiskFullError, if the lock's file cannot be created.
class FileTurn {
 public:
  explicit FileTurn(const std::string& path);
  ~FileTurn();
  FileTurn(const FileTurn&) = delete;
  FileTurn& operator=(const FileTurn&) = delete;

 private:
  std::string lock_;
  int descriptor_ = -1;
};

}  // namespace penstock
