// The clock that profiles and benches read.
#pragma once

namespace penstock::ops {

/// Seconds since some moment: wall time, or this process's processor time while a ProcessorTime
/// lives.
double profile_seconds();

/// Has profiles count the time that processors spent on this process, not the time that passed: for
/// one-threaded measurements on a machine that is busy with something else.
class ProcessorTime {
 public:
  ProcessorTime();
  ~ProcessorTime();
  ProcessorTime(const ProcessorTime&) = delete;
  ProcessorTime& operator=(const ProcessorTime&) = delete;
};

}  // namespace penstock::ops
