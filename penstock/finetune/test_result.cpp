#include "penstock/finetune/test_result.h"

#include "penstock/base/error.h"
#include "penstock/finetune/beats_guessing.h"
#include "penstock/finetune/k_points.h"
#include "penstock/finetune/model_encoder.h"
#include "penstock/finetune/run_record.h"
#include "penstock/routers/plain_router.h"

namespace penstock {
namespace {

/// The checkpoint with the best selection score. Throws Error if there is none.
CheckpointInfo best_checkpoint(CheckpointStore& store) {
  CheckpointSearch search = store.best();
  PENSTOCK_CHECK(search.found, store.directory(0).parent_path().string(),
                 ": no checkpoint with a selection score is whole",
                 search.ignored.empty() ? "" : " (" + search.ignored.front() + ")",
                 "; fine-tune again, into another folder");
  return *search.found;
}

/// The majority accuracy on the texts that were scored. The authors' protocol leaves out the texts
/// after the last whole batch.
double majority_of_scored(const FinetuneSplits& splits, const nlohmann::ordered_json& by_k) {
  return majority_accuracy(splits.train, splits.test, by_k.at(0).at("texts").get<std::size_t>());
}

}  // namespace

nlohmann::ordered_json or_null(std::int64_t value) {
  return value > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

nlohmann::ordered_json finetune_result(const FinetuneJob& job, CheckpointStore& store,
                                       const std::function<ScoreOptions(std::int64_t k)>& options) {
  const CheckpointInfo best = best_checkpoint(store);
  const SavedClassifier saved = load_classifier(best.directory.string());
  const ModelConfig& model = saved.classifier->body().config();
  const FinetuneConfig& config = job.record.finetune;
  nlohmann::ordered_json out;
  out["task"] = word(job.splits.task);
  out["model"] = job.record.model;
  out["data"] = job.record.data;
  out["architecture"] = word(model.architecture);
  out["method"] = model.moe_layers() > 0 ? model.router.method : no_router().method;
  out["protocol"] = word(config.protocol);
  out["seed"] = config.seed;
  out["classes"] = job.splits.train.classes();
  out["train_texts"] = job.train.size();
  out["selection_texts"] = job.selection.size();
  out["test_texts"] = job.test.size();
  out["selection_source"] = job.splits.selection_source;
  out["test_source"] = job.splits.test_source;
  out["sequence_length"] = job.sequence_length;
  out["truncated_texts"] = job.train.truncated + job.selection.truncated + job.test.truncated;
  out["characters_left_out"] = job.train.left_out + job.selection.left_out + job.test.left_out;
  out["train_k"] = or_null(job.start.k.train);
  out["selection_k"] = or_null(job.start.k.selection);
  out["best_step"] = best.step;
  out["selection_accuracy"] = 1 - *best.validation_loss;
  out["majority_accuracy"] = nullptr;  // keeps its place before the list
  out["by_k"] = test_by_k(*saved.classifier, job.test,
                          k_points(model, config.test_k, job.start.k.selection), options);
  out["majority_accuracy"] = majority_of_scored(job.splits, out["by_k"]);
  out["accuracy"] = nullptr;  // stays null if --k leaves out the selection's k
  for (const auto& point : out["by_k"])
    if (point["k"] == out["selection_k"]) out["accuracy"] = point["accuracy"];
  out["notes"] = protocol_notes(config, model);
  if (const std::string nothing = why_nothing_was_learnt(out); !nothing.empty())
    out["notes"].push_back(nothing);
  return out;
}

nlohmann::ordered_json finetune_test(const std::string& run_directory,
                                     const FinetuneTestOptions& options) {
  const FinetuneRecord record = read_finetune_record(run_directory);
  const FinetuneConfig& config = record.finetune;
  CheckpointStore store(real_file_system(), run_directory);
  const CheckpointInfo best = best_checkpoint(store);
  const std::string directory = best.directory.string();
  const SavedClassifier saved = load_classifier(directory);
  const bool other = !options.data.empty();
  const std::string& data = other ? options.data : record.data;
  FinetuneSplits splits;
  if (other) {
    splits.test = splits.train = read_test_set(data);  // the majority is that of the test set
  } else {
    splits = load_finetune_splits(data, record.task, config);
    PENSTOCK_CHECK(splits.hash() == record.data_hash, data, ": has changed since ", run_directory,
                   " was fine-tuned on it; put it back, or name its place as options.data");
  }
  PENSTOCK_CHECK(splits.test.class_names == saved.class_names, data, ": has ",
                 splits.test.classes(), " classes and the classifier in ", directory, " has ",
                 saved.class_names.size(),
                 ", or they are named otherwise; give data of the same classes");
  const ModelConfig& model = saved.classifier->body().config();
  const EncodedSet test =
      load_text_encoder(directory)->encode(splits.test, longest_text(config, model));
  nlohmann::ordered_json out;
  out["task"] = word(record.task);
  out["model"] = directory;
  out["data"] = data;
  out["protocol"] = word(config.protocol);
  out["classes"] = splits.test.classes();
  out["test_texts"] = test.size();
  out["best_step"] = best.step;
  out["majority_accuracy"] = nullptr;  // keeps its place before the list
  const auto& wanted = options.k.empty() ? config.test_k : options.k;
  const std::int64_t also = training_k(model, config).selection;
  out["by_k"] = test_by_k(*saved.classifier, test, k_points(model, wanted, also),
                          [&](std::int64_t) { return protocol_score_options(config); });
  out["majority_accuracy"] = majority_of_scored(splits, out["by_k"]);
  return out;
}

}  // namespace penstock
