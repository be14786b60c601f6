// A file in memory with a path, for readers that open a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::fuzz {

class MemoryFile {
 public:
  explicit MemoryFile(std::string_view content) : descriptor_(::memfd_create("fuzz", 0)) {
    while (!content.empty()) {
      const ssize_t done = ::write(descriptor_, content.data(), content.size());
      if (done <= 0) __builtin_trap();
      content.remove_prefix(static_cast<std::size_t>(done));
    }
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace penstock::fuzz
