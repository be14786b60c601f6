#include "penstock/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "penstock/base/error.h"
#include "penstock/base/mapped_file_fault.h"

namespace penstock {

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Non-blocking: a named pipe is refused, and the open does not wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  PENSTOCK_CHECK(fd >= 0, "cannot open ", path.string(), ": ",
                 std::generic_category().message(errno));
  struct stat info {};
  void* mapping = nullptr;
  int code = ::fstat(fd, &info) == 0 ? 0 : errno;
  const bool regular = code == 0 && S_ISREG(info.st_mode);
  const auto size = static_cast<std::size_t>(info.st_size);
  if (regular && size > 0) {
    mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapping == MAP_FAILED) code = errno;
  }
  ::close(fd);
  PENSTOCK_CHECK(code == 0, "cannot read ", path.string(), ": ",
                 std::generic_category().message(code));
  PENSTOCK_CHECK(regular, "cannot read ", path.string(), ": it is not a regular file");
  stamp_ = file_stamp(info);
  if (!mapping) return;
  bytes_ = {static_cast<const std::byte*>(mapping), size};
  list_mapping(bytes_, path);
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  unlist_mapping(bytes_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void release_pages(std::span<const std::byte> part) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(part.data() + part.size()) / page * page;
  // The pages are read-only, so dropping them loses nothing. A failure costs only memory.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace penstock
