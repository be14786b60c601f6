// How a run, a training or a fine-tuning, is asked for and how it can end.
#pragma once

#include <cstdio>
#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/dist/group.h"

namespace penstock {

struct TrainControl {
  bool resume = true;  ///< continue what the directory holds; false: the directory must be new
  bool quiet = false;  ///< no progress
  bool force = false;  ///< try also what takes more memory than there is
  std::FILE* progress = stderr;
  FileSystem* files = nullptr;    ///< what is written goes through it; null: the system's files
  dist::ProcessGroup group = {};  ///< the processes of the run; of a training only
  int processes_here = 1;         ///< that share this machine, of it and of runs beside it
  /// Bytes of memory that this process may take, where that was settled before; 0: an even share of
  /// what is free.
  double memory = 0;
  /// Gets each line of metrics.jsonl once it is there, of rank 0. False stops the run as a signal
  /// does: saved, and to be continued.
  std::function<bool(const nlohmann::ordered_json& line)> logged = {};
};

/// A loss or a gradient was not finite. The last good step is saved; the message names the layer.
class DivergedError : public Error {
 public:
  using Error::Error;
};

enum class RunOutcome { finished, interrupted };

}  // namespace penstock
