#include "penstock/cli/processes/end_on_signal.h"

#include <unistd.h>

#include <cstdio>
#include <system_error>
#include <utility>

namespace penstock {

EndOnSignal::EndOnSignal(std::string message, std::vector<std::filesystem::path> unfinished)
    : message_(std::move(message)),
      unfinished_(std::move(unfinished)),
      watcher_([this](const std::stop_token& stop) { watch(stop); }) {}

void EndOnSignal::disarm() {
  const std::scoped_lock lock(mutex_);
  armed_ = false;
}

void EndOnSignal::watch(const std::stop_token& stop) {
  using namespace std::chrono_literals;
  for (; !stop.stop_requested(); std::this_thread::sleep_for(20ms)) {
    if (guard_.signal() == 0) continue;
    const std::scoped_lock lock(mutex_);  // waits until disarm() is over
    if (!armed_) return;
    std::error_code ignored;  // the next writer removes the rest
    for (const auto& path : unfinished_) std::filesystem::remove_all(path, ignored);
    std::fprintf(stderr, "\n%s\n", message_.c_str());
    ::_exit(130);  // without destructors: the other threads are still at work
  }
}

}  // namespace penstock
