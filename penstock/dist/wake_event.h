// An event by which one thread ends another's wait in poll().
#pragma once

namespace penstock::dist {

/// Thread-safe.
class WakeEvent {
 public:
  /// Throws Error if the process has no file left: without the event nothing could end the wait.
  WakeEvent();
  ~WakeEvent();
  WakeEvent(const WakeEvent&) = delete;
  WakeEvent& operator=(const WakeEvent&) = delete;
  /// Makes descriptor() readable from now on.
  void raise() const;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace penstock::dist
