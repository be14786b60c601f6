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

 private:
  int descriptor_;
};

}  // namespace penstock
