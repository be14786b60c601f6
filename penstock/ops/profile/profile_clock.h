// The clock that profiles and benches read.
#pragma once

namespace penstock::ops {

/// Seconds since some moment: wall time, or this process's processor time while a ProcessorTime
/// lives.
double profile_seconds();

/// While it lives, profiles count the processor time of this process, not wall time. For
/// one-threaded measurements on a machine that is busy with other work.
class ProcessorTime {
 public:
  ProcessorTime();
  ~ProcessorTime();
  ProcessorTime(const ProcessorTime&) = delete;
  ProcessorTime& operator=(const ProcessorTime&) = delete;
};

}  // namespace penstock::ops
