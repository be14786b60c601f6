// Converts the message of any library's exception to one line for users, without a stack trace.
#pragma once

#include <exception>
#include <string>

namespace penstock {

/// The first line of the exception's message. For std::bad_alloc, the system's ENOMEM and
/// libtorch's out-of-memory error: "memory ran out", with the number of bytes requested if it is
/// known.
std::string failure_text(const std::exception& error);
/// The same for a stored exception.  REQUIRES: it derives from std::exception.
std::string failure_text(const std::exception_ptr& thrown);

/// Whether the exception means that memory ran out, also if a thread could not start because of it.
bool memory_ran_out(const std::exception& error);

}  // namespace penstock
