#include "penstock/ops/machine/freed_memory.h"

#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

namespace penstock::ops {

void give_back_freed_memory() {
#ifdef M_MMAP_MAX
  constexpr int kLarge = 1 << 20, kMostBlocks = 1 << 16;
  mallopt(M_MMAP_MAX, kMostBlocks);
  mallopt(M_MMAP_THRESHOLD, kLarge);  // a threshold set here does not adapt to freed blocks
  mallopt(M_TRIM_THRESHOLD, kLarge);
  mallopt(M_TOP_PAD, kLarge);
#endif
}

}  // namespace penstock::ops
