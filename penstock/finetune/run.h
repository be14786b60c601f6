// One fine-tuning in a run directory, from a pretrained model to finetune.json; resumable.
#pragma once

#include <string>

#include "penstock/finetune/job.h"
#include "penstock/train/run_control.h"

namespace penstock {

/// Fine-tunes `record.model` (a model folder) on `record.data` in that run directory, or continues
/// the run there. Writes config.toml, metrics.jsonl, TensorBoard events, checkpoints/step-N/
/// (model.safetensors with the head as classifier.*) and finetune.json. The best checkpoint has the
/// highest accuracy on the selection set, and is the earliest of equals. It is scored on the test
/// set once, at the end. On SIGINT, SIGTERM and SIGHUP it saves a checkpoint of the last complete
/// step and returns `interrupted`, also between the layers of a step. Throws Error for a run that
/// takes more memory than is free (unless forced), for a directory that holds another run, for data
/// or a model that has changed since, on a full disk, and on a loss or gradient that is not finite
/// (after saving the last good step).
RunOutcome finetune_run(const FinetuneRecord& record, const std::string& run_directory,
                        const TrainControl& control);

}  // namespace penstock
