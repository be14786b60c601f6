// SIGINT, SIGTERM and SIGHUP as a flag that a run reads between steps and layers.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace penstock {

/// The signals that stop a run: SIGINT, SIGTERM and SIGHUP. SIGHUP is left out if the process
/// ignores it, as a program started by `nohup` does to outlive its terminal.
std::vector<int> stopping_signals();

/// Whether a stopping signal that follows the first one asks to end at once: SIGINT, and any signal
/// a second or more after the first. Some senders, such as `timeout`, send a signal twice. May be
/// called in a signal handler.
bool ends_at_once(int signal, std::chrono::nanoseconds since_first);

/// While a guard is alive, the stopping signals set a flag instead of ending the process. A later
/// signal that ends_at_once() ends the process. The destructor of the last guard restores the
/// earlier handlers. Guards share the flag, so an outer guard keeps a signal that an inner one
/// received, and guards of several threads all see it.
class InterruptGuard {
 public:
  /// @param acknowledgement  line that the handler writes at the first signal
  /// @param out              file that the line goes to; may be null
  explicit InterruptGuard(const std::string& acknowledgement = {}, std::FILE* out = nullptr);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  /// The received signal, or 0.
  int signal() const;

 private:
  std::string acknowledgement_;
};

/// Has the effect of a first signal of that number on a living guard, but writes no
/// acknowledgement. Does nothing if there is no guard.
void stop_guarded_work(int signal);

/// The line that a run prints at the first signal if it then saves its last complete step.
inline constexpr const char* kStoppingLine =
    "stopping after this layer, or this batch of an evaluation, to save the last complete step; "
    "press Ctrl-C again to end now";

}  // namespace penstock
