// Pages of 2 MiB under the heap of the C library.
#pragma once

namespace penstock::ops {

/// Gives the heap addresses, but no memory, for half of what this machine has free, and asks for
/// large pages there. AMX multiplies faster than addresses in small pages are found. Nothing
/// where the system has no such pages.
void grow_heap_of_large_pages();

/// The same where it has been called before, after what gave the addresses back (malloc_trim).
void regrow_heap_of_large_pages();

}  // namespace penstock::ops
