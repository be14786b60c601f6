// Returns freed memory to the system; keep_freed_memory() (dispatch.h) does the opposite.
#pragma once

namespace penstock::ops {

/// Makes the C library return blocks of 1 MiB or more to the system when they are freed. It is for
/// a command that makes large tensors one after another, where peak memory matters more than speed.
/// Undoes keep_freed_memory() from now on. No effect without glibc.
void give_back_freed_memory();

}  // namespace penstock::ops
