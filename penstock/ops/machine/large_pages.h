// Pages of 2 MiB under the heap of the C library.
#pragma once

namespace penstock::ops {

/// Extends the heap by addresses, but no memory, for half of this machine's free memory, and asks
/// for large pages there. With small pages, AMX multiplies faster than the processor translates
/// addresses. Does nothing if the system has no large pages.
void grow_heap_of_large_pages();

/// Calls grow_heap_of_large_pages() again if it was called before. Needed after malloc_trim(),
/// which gives the addresses back.
void regrow_heap_of_large_pages();

}  // namespace penstock::ops
