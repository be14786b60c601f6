#include "penstock/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "penstock/base/error.h"

namespace penstock {

FileLock::FileLock(const std::string& path)
    : descriptor_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  PENSTOCK_CHECK(descriptor_ >= 0, path, ": cannot be created (", std::strerror(errno), ")");
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  close(descriptor_);
  fail(path, ": another process is working in this directory; wait for it, or choose another one");
}

FileLock::~FileLock() { close(descriptor_); }

}  // namespace penstock
