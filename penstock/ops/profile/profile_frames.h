// The stack of timed frames behind profile.h, for the sources that time something. Not public.
#pragma once

#include <string>

namespace penstock::ops {

/// Begins a frame on this thread. Frames end in reverse order.
void begin_frame();
/// Ends the innermost frame and returns its seconds, without those of the frames inside it.
double end_frame();
void add_scope(const std::string& name, double seconds);
/// Whether an operator is running on this thread.
bool inside_operator();

}  // namespace penstock::ops
