// Where the memory of CPU tensors comes from.
#pragma once

namespace penstock::ops {

/// Makes CPU tensors take blocks of malloc and align them by themselves, in place of libtorch's
/// posix_memalign: a block that the C library has cut to an alignment is a little too small to be
/// taken again for the same size when it has been freed, so that each step's large tensors would
/// move on to fresh memory. Call it once at the start of a program, before other threads make
/// tensors. Tensors that exist keep their memory.
void align_tensors_in_malloc();

}  // namespace penstock::ops
