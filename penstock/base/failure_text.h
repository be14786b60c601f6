// What an exception of any library says, as one line for people: memory that ran out in words, and
// no stack trace.
#pragma once

#include <exception>
#include <string>

namespace penstock {

/// The first line of what it says. For std::bad_alloc and libtorch's word for it, "memory ran out",
/// with the bytes that were asked for where they are known.
std::string failure_text(const std::exception& error);
/// The same of what was thrown.  REQUIRES: it is an exception of the standard library's kind.
std::string failure_text(const std::exception_ptr& thrown);

/// Whether it says that memory ran out.
bool memory_ran_out(const std::exception& error);

}  // namespace penstock
