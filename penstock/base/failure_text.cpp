#include "penstock/base/failure_text.h"

#include <new>
#include <string_view>
#include <system_error>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// Parts of the message of libtorch's CPU allocator: its name, and the words before the number of
/// bytes.
constexpr std::string_view kAllocator = "DefaultCPUAllocator: ", kTried = "tried to allocate ";

bool is_system_error(const std::exception& error, std::errc code) {
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  return system != nullptr && system->code() == code;
}

/// std::thread throws this if there is no memory for a stack, or the system allows no more threads.
bool has_no_thread(const std::exception& error) {
  return is_system_error(error, std::errc::resource_unavailable_try_again);
}

}  // namespace

bool memory_ran_out(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr || has_no_thread(error) ||
         is_system_error(error, std::errc::not_enough_memory) ||
         std::string_view(error.what()).find(kAllocator) != std::string_view::npos;
}

std::string failure_text(const std::exception& error) {
  const std::string what = error.what();
  if (has_no_thread(error))
    return "memory ran out, or the number of threads that the system allows: no thread could start";
  if (memory_ran_out(error)) {
    const auto at = what.find(kTried);
    const long long bytes = at == what.npos ? 0 : std::atoll(what.c_str() + at + kTried.size());
    if (bytes <= 0) return "memory ran out";
    return concat("memory ran out: ", bytes, " bytes more were asked for");
  }
  const std::string line = what.substr(0, what.find('\n'));  // libtorch adds a stack trace
  return line.empty() ? "failed without a word" : line;
}

std::string failure_text(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return failure_text(error);
  }
}

}  // namespace penstock
