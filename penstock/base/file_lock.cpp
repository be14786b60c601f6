#include "penstock/base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/file_stamp.h"
#include "penstock/base/file_system.h"
#include "penstock/base/links.h"

namespace penstock {
namespace {

/// Whether the path names the open file or folder. True where nothing is known of one of them.
bool leads_to(const std::filesystem::path& path, int descriptor) {
  struct stat held {
  }, there{};
  if (::fstat(descriptor, &held) != 0) return true;
  if (::stat(path.c_str(), &there) != 0) return errno != ENOENT && errno != ENOTDIR;
  return file_stamp(held).same_file(file_stamp(there));
}

/// Creates the file that holds the turn at `path`, or opens it if another process has the turn.
int open_turn(const std::string& lock, const std::string& path) {
  const int file = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file >= 0) return file;
  const int code = errno;
  const std::string what = concat("cannot write ", path, ": ", lock, " cannot be created (");
  if (code == ENOSPC || code == EDQUOT)
    throw DiskFullError(what + "disk full); free some space, nothing there was changed");
  fail(what, std::strerror(code), ")");
}

/// Waits for the lock. Where the file system has no locks, there is nothing to wait for.
void wait_for_lock(int file) {
  while (::flock(file, LOCK_EX) != 0 && errno == EINTR) continue;
}

}  // namespace

// The destructor also runs if this constructor throws, since the one without arguments has ended.
FileLock::FileLock(const std::string& path) : FileLock() {
  path_ = path;
  folder_ = ::open(parent_directory(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  PENSTOCK_CHECK(folder_ >= 0, path_, ": cannot be created (", std::strerror(errno), ")");
  descriptor_ = open_locked(
      "another process is working in this directory; wait for it, or choose another one");
}

FileLock::~FileLock() {
  for (const int each : {descriptor_, folder_})
    if (each >= 0) ::close(each);
}

/// Creates the file in the folder if it is missing, and locks it.
/// @param otherwise  what the error says if another process holds the lock
int FileLock::open_locked(const std::string& otherwise) const {
  const std::string name = std::filesystem::path(path_).filename();
  const int file = ::openat(folder_, name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  PENSTOCK_CHECK(file >= 0, path_, ": cannot be created (", std::strerror(errno), ")");
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  ::close(file);
  fail(path_, ": ", otherwise);
}

bool FileLock::keep() {
  if (leads_to(path_, descriptor_)) return true;
  if (!leads_to(parent_directory(path_), folder_)) return false;
  const int anew = open_locked(
      "was deleted, and another process has made it again and is working in this directory");
  ::close(std::exchange(descriptor_, anew));
  return true;
}

FileTurn::FileTurn(const std::string& path) {
  const std::filesystem::path place = followed(path);
  lock_ = parent_directory(place) / concat(".", place.filename().string(), ".lock");
  descriptor_ = open_turn(lock_, path);
  wait_for_lock(descriptor_);
  // The earlier holder has removed its file: a lock on that keeps nobody away.
  while (!leads_to(lock_, descriptor_)) {
    ::close(std::exchange(descriptor_, -1));
    descriptor_ = open_turn(lock_, path);
    wait_for_lock(descriptor_);
  }
}

FileTurn::~FileTurn() {
  ::unlink(lock_.c_str());  // before the release: afterwards it may be the next holder's
  ::close(descriptor_);
}

}  // namespace penstock
