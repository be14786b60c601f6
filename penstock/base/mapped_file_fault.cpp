#include "penstock/base/mapped_file_fault.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>

namespace penstock {
namespace {

constexpr std::size_t kListed = 256, kLongestName = 512;

/// A mapping's bytes and the end of its path. The handler may run in any thread at any time, so it
/// takes no lock: it reads the name of an entry whose `begin` is set, and `begin` is set last.
struct Mapping {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;
  std::array<char, kLongestName> name{};
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);

std::array<Mapping, kListed> mappings;
std::mutex listing;  // of those who list and unlist

std::uintptr_t address(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

void say(const char* text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
}

/// Ends the process with the name of the mapped file that has the address, if one has it.
void end_naming_file(std::uintptr_t at) {
  for (const Mapping& mapping : mappings) {
    const std::uintptr_t begin = mapping.begin;
    if (begin == 0 || at < begin || at >= mapping.end) continue;
    say("\npenstock: ");
    say(mapping.name.data());
    say(": cannot be read any more: it was cut short while it was in use, or its disk failed; put "
        "it back and run the command again\n");
    ::_exit(1);
  }
}

void on_bus_error(int number, siginfo_t* info, void*) {
  // A positive code: the address caused the signal. Else another process sent it.
  const bool sent = info->si_code <= 0;
  if (!sent) end_naming_file(address(info->si_addr));
  // The instruction is tried again, and now ends the process.
  ::signal(number, SIG_DFL);
  if (sent) ::raise(number);
}

}  // namespace

void name_files_that_cannot_be_read() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void list_mapping(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const std::scoped_lock lock(listing);
  for (Mapping& mapping : mappings) {
    if (mapping.begin != 0) continue;
    const std::string& whole = path.native();
    const std::size_t skipped = whole.size() < kLongestName ? 0 : whole.size() - kLongestName + 1;
    *std::copy(whole.begin() + static_cast<std::ptrdiff_t>(skipped), whole.end(),
               mapping.name.begin()) = '\0';
    mapping.end = address(bytes.data()) + bytes.size();
    mapping.begin = address(bytes.data());
    return;
  }
}

void unlist_mapping(std::span<const std::byte> bytes) {
  const std::scoped_lock lock(listing);
  for (Mapping& mapping : mappings)
    if (mapping.begin == address(bytes.data())) mapping.begin = 0;
}

}  // namespace penstock
