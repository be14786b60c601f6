// The job of a fine-tuning: its settings, its data as token ids, and its classifier. It is the same
// for a new run and a resumed run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "penstock/finetune/pretrained.h"
#include "penstock/finetune/score.h"
#include "penstock/finetune/splits.h"
#include "penstock/finetune/texts.h"
#include "penstock/models/counts/training_memory.h"

namespace penstock {

/// The content of a run's config.toml.
struct FinetuneRecord {
  std::string model, data, model_hash, data_hash;
  ClassificationFormat task = ClassificationFormat::kAuto;
  FinetuneConfig finetune;

  template <class V>
  void visit(V& v) {
    v("model", model, {.help = "folder of the pretrained model"});
    v("data", data, {.help = "data set"});
    v("task", task, {.help = "format of the data set"});
    v("model_hash", model_hash, {.help = "hash of the pretrained tensors"});
    v("data_hash", data_hash, {.help = "hash of all texts and labels"});
    v("finetune", finetune);
  }
};

struct FinetuneJob {
  FinetuneRecord record;
  FinetuneSplits splits;
  std::shared_ptr<const TextEncoder> encoder;
  EncodedSet train, selection, test;
  PretrainedClassifier start;
  std::int64_t sequence_length = 0;
};

/// Reads data and model and encodes the texts. The caller sets model, data, task and finetune of
/// `record`; the function fills in the hashes.
FinetuneJob prepare_finetune_job(FinetuneRecord record);

/// Memory of a step. It assumes the largest pass: as many texts of one length as the training set
/// has and a batch can hold, at the experts per token of training.
TrainingMemory finetune_memory(const FinetuneJob& job);

/// Throws Error if finetune_memory() without the weights, which are already in memory, is more than
/// `available` bytes. The message has both figures and the keys to lower.
void check_finetune_memory(const FinetuneJob& job, double available);

/// The options with which the protocol scores a set.
ScoreOptions protocol_score_options(const FinetuneConfig& config);

/// The longest text in tokens: `sequence_length` or, if that is 0, 512 but at most the context that
/// pretraining read (for Transformer-XL with its memory).
std::int64_t longest_text(const FinetuneConfig& config, const ModelConfig& model);

/// Sentences about the protocol's weaknesses or its differences from the paper, for users.
std::vector<std::string> protocol_notes(const FinetuneConfig& config, const ModelConfig& model);

/// The test results at each k, as a list of {"k", "accuracy", "correct", "texts", "macro_f1",
/// "loss"}. If the model has no k, there is one result with k = null. `options` is called for each
/// k, with 0 for no k.
nlohmann::ordered_json test_by_k(Classifier& classifier, const EncodedSet& test,
                                 const std::vector<std::int64_t>& k,
                                 const std::function<ScoreOptions(std::int64_t k)>& options);

}  // namespace penstock
