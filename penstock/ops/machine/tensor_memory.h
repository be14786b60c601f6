// Chooses the allocator of CPU tensors.
#pragma once

namespace penstock::ops {

/// Makes CPU tensors take blocks from malloc and align the data within them, instead of libtorch's
/// posix_memalign. posix_memalign cuts a block to the alignment. Once freed, such a block is a
/// little too small for the same size again, so each step's large tensors would move on to fresh
/// memory. Call it once at the start of a program, before other threads make tensors. Tensors that
/// exist keep their memory.
void align_tensors_in_malloc();

}  // namespace penstock::ops
