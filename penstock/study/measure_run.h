// A finished run's checkpoint, measured at several numbers of experts per token.
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/data/corpus.h"
#include "penstock/study/measured_k.h"
#include "penstock/train/checkpoints.h"

namespace penstock::study {

/// The run's "final" (newest) or "best" (lowest validation loss) checkpoint. Throws Error where
/// none is whole.
CheckpointInfo find_checkpoint(const std::string& run_directory, const std::string& which);

/// The test split, or validation where there is none.
Split measured_split(const Corpus& corpus);

/// Those of `eval_k` that the recipe's model takes; {0} where it has no k to set.
std::vector<std::int64_t> wanted_k(const ConfigNode& resolved,
                                   std::span<const std::int64_t> eval_k);

/// Loads the run's "final" (newest) or "best" (lowest validation loss) checkpoint and evaluates it
/// at each of those k as the recipe's last evaluation does: its window, streams, memory and
/// final_eval_tokens, on the test split, or validation where there is no test split. 0: the model's
/// own number. `folded`: with each router folded into one matrix and bias. `progress` may be null.
/// Throws Error where no such checkpoint is whole, or its routers do not fold.
MeasuredK measure_run(const ConfigNode& resolved, const std::string& run_directory,
                      std::span<const std::int64_t> values, const std::string& checkpoint,
                      bool folded, std::FILE* progress);

}  // namespace penstock::study
