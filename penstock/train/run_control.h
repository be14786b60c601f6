// Options of a run, which is a training or a fine-tuning, and the ways in which it can end.
#pragma once

#include <cstdio>
#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/dist/group.h"

namespace penstock {

struct TrainControl {
  bool resume = true;  ///< continue a run in the directory; false: the directory must be new
  bool quiet = false;  ///< no progress
  bool force = false;  ///< try runs that take more memory than there is
  std::FILE* progress = stderr;
  FileSystem* files = nullptr;    ///< file system to write to; null: the system's
  dist::ProcessGroup group = {};  ///< the run's processes; only a training has several
  /// processes on this machine, of this run and of other runs of the study
  int processes_here = 1;
  /// Bytes of memory that this process may take; 0: an even share of the free memory.
  double memory = 0;
  /// Rank 0 calls it with each line of metrics.jsonl, once the line is in the file. If it returns
  /// false, the run stops as on a signal: it is saved and can be continued.
  std::function<bool(const nlohmann::ordered_json& line)> logged = {};
};

/// A loss or a gradient was not finite. The last good step is saved; the message names the layer.
class DivergedError : public Error {
 public:
  using Error::Error;
};

enum class RunOutcome { finished, interrupted };

}  // namespace penstock
