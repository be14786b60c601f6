#include "penstock/ops/machine/large_pages.h"

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "penstock/base/memory.h"

namespace penstock::ops {
namespace {

std::atomic<bool> grown{false};

}  // namespace

void grow_heap_of_large_pages() {
  grown = true;
#ifdef MADV_HUGEPAGE
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20;
  const auto bytes = static_cast<std::size_t>(available_memory_bytes() / 2);
  // Allocates and frees a block. Its addresses remain part of the heap.
  void* const block = std::malloc(bytes);
  if (!block) return;
  const auto from = reinterpret_cast<std::uintptr_t>(block);
  const std::uintptr_t begin = (from + kPage - 1) / kPage * kPage,
                       end = (from + bytes) / kPage * kPage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
  std::free(block);
#endif
}

void regrow_heap_of_large_pages() {
  if (grown) grow_heap_of_large_pages();
}

}  // namespace penstock::ops
