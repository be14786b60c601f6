#include "penstock/base/unnamed_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "penstock/base/error.h"

namespace penstock {

UnnamedFile::UnnamedFile(std::filesystem::path folder, std::string content)
    : folder_(std::move(folder)), content_(std::move(content)) {
  // Not O_TMPFILE, which some file systems lack.
  std::string name = (folder_ / ".penstock-unnamed-XXXXXX").string();
  file_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (file_ < 0) fail_to("make a file for the " + content_ + " in", errno);
  ::unlink(name.c_str());
}

UnnamedFile::~UnnamedFile() {
  for (const Bytes mapping : mappings_)
    ::munmap(const_cast<std::byte*>(mapping.data()), mapping.size());
  ::close(file_);
}

void UnnamedFile::fail_to(const std::string& action, int code) const {
  const std::string what =
      concat("cannot ", action, " ", folder_.string(), ": ", std::generic_category().message(code));
  if (code == ENOSPC || code == EDQUOT) throw DiskFullError(what + " (disk full); free some space");
  throw Error(what);
}

void UnnamedFile::append(Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(file_, bytes.data(), bytes.size());
    if (done < 0 && errno != EINTR) fail_to("keep " + content_ + " in", errno);
    if (done <= 0) continue;
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    size_ += static_cast<std::uint64_t>(done);
  }
}

std::size_t UnnamedFile::read(std::uint64_t begin, std::span<std::byte> to) const {
  std::size_t done = 0;
  while (done < to.size() && begin + done < size_) {
    const ssize_t got =
        ::pread(file_, to.data() + done, to.size() - done, static_cast<off_t>(begin + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail_to("read back " + content_ + " from", got < 0 ? errno : EIO);
    done += static_cast<std::size_t>(got);
  }
  return done;
}

Bytes UnnamedFile::map(std::uint64_t begin, std::uint64_t bytes) {
  if (bytes == 0) return {};
  void* at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file_, static_cast<off_t>(begin));
  if (at == MAP_FAILED) fail_to("map " + content_ + " from", errno);
  mappings_.emplace_back(static_cast<const std::byte*>(at), bytes);
  return mappings_.back();
}

std::uint64_t UnnamedFile::page_bytes() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace penstock
