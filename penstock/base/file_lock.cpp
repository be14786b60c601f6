#include "penstock/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "penstock/base/error.h"

namespace penstock {

FileLock::FileLock(const std::string& path)
    : path_(path), descriptor_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  PENSTOCK_CHECK(descriptor_ >= 0, path, ": cannot be created (", std::strerror(errno), ")");
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  close(descriptor_);
  fail(path, ": another process is working in this directory; wait for it, or choose another one");
}

FileLock::~FileLock() { close(descriptor_); }

bool FileLock::in_place() const {
  struct stat locked {
  }, there{};
  if (::fstat(descriptor_, &locked) != 0) return true;  // nothing is known
  if (::stat(path_.c_str(), &there) != 0) return errno != ENOENT && errno != ENOTDIR;
  return locked.st_dev == there.st_dev && locked.st_ino == there.st_ino;
}

}  // namespace penstock
