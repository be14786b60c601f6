#include "penstock/base/failure_text.h"

#include <cstdlib>
#include <new>
#include <string_view>
#include <system_error>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// Parts of the message of libtorch's CPU allocator: its name, and the words before the number of
/// bytes.
constexpr std::string_view kAllocator = "DefaultCPUAllocator: ", kTried = "tried to allocate ";

}  // namespace

bool memory_ran_out(const std::exception& error) {
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         (system != nullptr && system->code() == std::errc::not_enough_memory) ||
         std::string_view(error.what()).find(kAllocator) != std::string_view::npos;
}

std::string failure_text(const std::exception& error) {
  const std::string what = error.what();
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
