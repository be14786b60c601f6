// The clock behind profile.h, for the sources that time something. Not public.
#pragma once

#include <string>

namespace penstock::ops {

/// Begins a frame on this thread; the innermost ends first.
void begin_frame();
/// Ends the innermost frame and returns the time that was its own.
double end_frame();
void add_scope(const std::string& name, double seconds);
/// Whether an operator runs on this thread.
bool inside_operator();

}  // namespace penstock::ops
