#include "penstock/train/interrupt.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <utility>

namespace penstock {
namespace {

// A signal may arrive in any thread.
std::atomic<int> received = 0;
std::atomic<std::int64_t> first_time = 0;  // nanoseconds
std::atomic<int> alive = 0;                // guards
// The signals with their handlers of before the first guard.
std::mutex of_guards;
std::vector<std::pair<int, struct sigaction>> earlier_handlers;
// The text that the handler writes at the first signal, and the file descriptor for it.
std::atomic<const std::string*> line = nullptr;
std::atomic<int> descriptor = -1;
// A signal handler may use only atomics without locks.
static_assert(std::atomic<int>::is_always_lock_free);
static_assert(std::atomic<std::int64_t>::is_always_lock_free);
static_assert(std::atomic<const std::string*>::is_always_lock_free);

std::int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void acknowledge() {
  const std::string* text = line;
  if (!text || text->empty()) return;
  const int before = errno;
  [[maybe_unused]] const auto written = ::write(descriptor, text->data(), text->size());
  errno = before;
}

void on_signal(int number) {
  if (received != 0) {
    if (ends_at_once(number, std::chrono::nanoseconds(now() - first_time))) _exit(130);
    return;
  }
  first_time = now();
  received = number;
  acknowledge();
}

}  // namespace

std::vector<int> stopping_signals() {
  struct sigaction hangup = {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler == SIG_IGN) return {SIGINT, SIGTERM};
  return {SIGINT, SIGTERM, SIGHUP};
}

bool ends_at_once(int signal, std::chrono::nanoseconds since_first) {
  return signal == SIGINT || since_first >= std::chrono::seconds(1);
}

InterruptGuard::InterruptGuard(const std::string& acknowledgement, std::FILE* out) {
  const std::scoped_lock lock(of_guards);
  if (alive++ == 0) {
    received = 0;
    earlier_handlers.clear();
    for (const int number : stopping_signals()) {
      struct sigaction old = {};
      sigaction(number, nullptr, &old);
      earlier_handlers.emplace_back(number, old);
    }
  }
  if (out) {
    // On a terminal an unfinished progress line may stand there, so begin a new line.
    acknowledgement_ = (isatty(fileno(out)) ? "\n" : "") + acknowledgement + "\n";
    descriptor = fileno(out);
    line = &acknowledgement_;
  }
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (const auto& [number, old] : earlier_handlers) sigaction(number, &action, nullptr);
}

InterruptGuard::~InterruptGuard() {
  const std::scoped_lock lock(of_guards);
  line = nullptr;
  if (--alive > 0) return;
  for (const auto& [number, old] : earlier_handlers) sigaction(number, &old, nullptr);
}

void stop_guarded_work(int signal) {
  if (alive == 0 || received != 0) return;
  first_time = now();
  received = signal;
}

int InterruptGuard::signal() const { return received; }

}  // namespace penstock
