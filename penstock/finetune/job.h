// The job of a fine-tuning: its settings, its data as ids, its classifier. It is the same for a new
// run, a resumed run and a test of a saved run.
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

/// config.toml of a run.
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

/// Reads data and model and encodes the texts. Of `record`, model, data, task and finetune are
/// given; the hashes are filled in.
FinetuneJob prepare_finetune_job(FinetuneRecord record);

/// Memory of a step: the largest pass that texts of one length can fill, all of them of a batch,
/// with as many experts per token as training takes.
TrainingMemory finetune_memory(const FinetuneJob& job);

/// Throws Error where what that takes beside the model, which is there, is more than `available`
/// bytes; the message has both and the keys to lower.
void check_finetune_memory(const FinetuneJob& job, double available);

/// How the protocol scores a set.
ScoreOptions protocol_score_options(const FinetuneConfig& config);

/// The longest text for that model: `sequence_length`, or 512 and as far as pretraining could read:
/// the context, with Transformer-XL's memory.
std::int64_t longest_text(const FinetuneConfig& config, const ModelConfig& model);

/// The points in which the protocol differs from its source, as sentences for people.
std::vector<std::string> protocol_notes(const FinetuneConfig& config, const ModelConfig& model);

/// The test at each k, {"k", "accuracy", "correct", "texts", "macro_f1", "loss"} in a list, k null
/// where the model has none. `options` is asked for each, with 0 for that.
nlohmann::ordered_json test_by_k(Classifier& classifier, const EncodedSet& test,
                                 const std::vector<std::int64_t>& k,
                                 const std::function<ScoreOptions(std::int64_t k)>& options);

}  // namespace penstock
