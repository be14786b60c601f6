// SIGINT, SIGTERM and SIGHUP as a flag that a run reads between steps and layers.
#pragma once

#include <csignal>
#include <cstdio>
#include <string>

namespace penstock {

/// While alive, SIGINT, SIGTERM and SIGHUP set a flag instead of ending the process; a second
/// SIGINT ends it at once, and so does any of them a second or more after the first (some senders
/// send twice). Restores the earlier handlers. One within another has its signal, and the outer one
/// keeps it.
class InterruptGuard {
 public:
  /// @param acknowledgement  a line that the first signal writes at once;  @param out  where; may
  ///                         be null
  explicit InterruptGuard(const std::string& acknowledgement = {}, std::FILE* out = nullptr);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  /// The received signal, or 0.
  int signal() const;

 private:
  std::string acknowledgement_;
  struct sigaction old_int_, old_term_, old_hangup_;
};

/// The line that a run which saves its last complete step prints at the first signal.
inline constexpr const char* kStoppingLine =
    "stopping after this layer, or this batch of an evaluation, to save the last complete step; "
    "press Ctrl-C again to end now";

}  // namespace penstock
