#include "penstock/finetune/run_record.h"

#include <filesystem>

#include "penstock/base/error.h"
#include "penstock/base/shell_quoted.h"
#include "penstock/finetune/k_points.h"
#include "penstock/finetune/learned.h"
#include "penstock/finetune/run.h"
#include "penstock/io/toml.h"
#include "penstock/routers/plain_router.h"

namespace penstock {
namespace {

/// The value of a key as TOML; "not set" where there is none.
std::string toml_value(const ConfigNode& from, const std::string& key) {
  const ConfigNode* node = from.find(key);
  ConfigNode holder;
  if (node) holder.set("v", *node);
  const std::string toml = to_toml(holder);  // "v = 1\n", or "" for what is not set
  return toml.size() > 4 ? toml.substr(4, toml.size() - 5) : std::string("not set");
}

/// The best checkpoint, or the newest where none was scored.
CheckpointInfo best_checkpoint(CheckpointStore& store) {
  CheckpointSearch search = store.best();
  PENSTOCK_CHECK(search.found, store.directory(0).parent_path().string(),
                 ": no checkpoint with a selection score is whole",
                 search.ignored.empty() ? "" : " (" + search.ignored.front() + ")",
                 "; fine-tune again, into another folder");
  return *search.found;
}

std::string hash_difference(const char* what, const std::string& before, const std::string& now) {
  return before == now ? "" : concat("the content of ", what, " has changed");
}

}  // namespace

nlohmann::ordered_json or_null(std::int64_t value) {
  return value > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

bool is_finetuning(const std::string& run_directory) {
  const std::string path = run_directory + "/config.toml";
  return std::filesystem::exists(path) && read_toml(path).find("finetune");
}

FinetuneRecord read_finetune_record(const std::string& run_directory) {
  const std::string path = run_directory + "/config.toml";
  PENSTOCK_CHECK(std::filesystem::exists(path), run_directory,
                 ": holds no config.toml; give a folder that `penstock finetune --out` wrote");
  const ConfigNode node = read_toml(path);
  PENSTOCK_CHECK(node.find("finetune"), path, ": is not of a fine-tuning");
  return read_config<FinetuneRecord>(node);
}

/// Of the texts that were scored: the authors' protocol leaves out those behind the last whole
/// batch.
double majority_of_scored(const FinetuneSplits& splits, const nlohmann::ordered_json& by_k) {
  return majority_accuracy(splits.train, splits.test, by_k.at(0).at("texts").get<std::size_t>());
}

std::string difference(const FinetuneRecord& before, const FinetuneRecord& now) {
  // In the order in which they explain one another.
  const ConfigNode a = write_config(before.finetune), b = write_config(now.finetune);
  for (const auto& field : describe_config<FinetuneConfig>()) {
    if (field.path == "emulate_bf16") continue;  // the same bits
    const std::string old_value = toml_value(a, field.path), value = toml_value(b, field.path);
    if (old_value != value) return concat(field.path, ": ", old_value, " -> ", value);
  }
  if (before.task != now.task) return concat("task: ", word(before.task), " -> ", word(now.task));
  const std::string model = hash_difference("the model", before.model_hash, now.model_hash);
  return model.empty() ? hash_difference("the data", before.data_hash, now.data_hash) : model;
}

std::string finetune_command(const FinetuneRecord& record, const std::string& run_directory) {
  std::string out = "penstock finetune " + shell_quoted(record.model) + " --data " +
                    shell_quoted(record.data) + " --task " + std::string(word(record.task));
  if (record.finetune.authors()) out += " --set protocol=authors";
  ConfigNode protocol;
  protocol.set("protocol", ConfigNode(std::string(word(record.finetune.protocol))));
  const ConfigNode usual = write_config(read_finetune_config(protocol)),
                   own = write_config(record.finetune);
  for (const auto& field : describe_config<FinetuneConfig>()) {
    const std::string value = toml_value(own, field.path);
    if (value != toml_value(usual, field.path))
      out += " --set " + shell_quoted(field.path + "=" + value);
  }
  return out + " --out " + shell_quoted(run_directory + "-again");
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
  out["majority_accuracy"] = nullptr;  // stands before the list
  out["by_k"] = test_by_k(*saved.classifier, job.test,
                          k_points(model, config.test_k, job.start.k.selection), options);
  out["majority_accuracy"] = majority_of_scored(job.splits, out["by_k"]);
  out["accuracy"] = nullptr;  // where --k leaves the selection's k out
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
    splits.test = splits.train = read_test_set(data);  // guessing knows its own majority
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
  out["majority_accuracy"] = nullptr;  // stands before the list
  const auto& wanted = options.k.empty() ? config.test_k : options.k;
  const std::int64_t also = training_k(model, config).selection;
  out["by_k"] = test_by_k(*saved.classifier, test, k_points(model, wanted, also),
                          [&](std::int64_t) { return protocol_score_options(config); });
  out["majority_accuracy"] = majority_of_scored(splits, out["by_k"]);
  return out;
}

}  // namespace penstock
