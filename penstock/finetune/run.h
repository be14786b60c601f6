// One fine-tuning in a run directory, from a pretrained model to finetune.json; resumable.
#pragma once

#include <string>

#include "penstock/finetune/job.h"
#include "penstock/train/run_control.h"

namespace penstock {

/// Fine-tunes `record.model` (a model folder) on `record.data`, or continues it, in that run
/// directory: config.toml, metrics.jsonl, TensorBoard events, checkpoints/step-N/
/// (model.safetensors with the head as classifier.*), finetune.json. The best checkpoint is that of
/// the highest accuracy on the selection set, the earliest of equals; the test set is read once, at
/// the end, with it. SIGINT, SIGTERM and SIGHUP save a checkpoint of the last complete step and
/// return `interrupted`, also between the layers of a step. Throws Error for what takes more memory
/// than is free (unless forced), for a directory that holds another run, for data or a model that
/// changed since, on a full disk, and on a loss or gradient that is not finite (after saving the
/// last good step).
RunOutcome finetune_run(const FinetuneRecord& record, const std::string& run_directory,
                        const TrainControl& control);

}  // namespace penstock
