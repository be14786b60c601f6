// Returns freed memory to the system; keep_freed_memory() (dispatch.h) does the opposite.
#pragma once

namespace penstock::ops {

/// Lets the C library give blocks of a MiB and more back to the system when they are freed: for a
/// command that makes large tensors one after another and is judged by the most memory that it
/// takes, not by its speed. Undoes keep_freed_memory() for what comes. Nothing elsewhere than under
/// glibc.
void give_back_freed_memory();

}  // namespace penstock::ops
