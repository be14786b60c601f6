// A training as the run loop has it: recipe, corpus and machine; validations, test, finished.json.
#include "penstock/train/run.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "penstock/base/config_origin.h"
#include "penstock/base/error.h"
#include "penstock/base/memory.h"
#include "penstock/base/nonfinite.h"
#include "penstock/base/threads.h"
#include "penstock/io/toml.h"
#include "penstock/models/model_directory.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine.h"
#include "penstock/train/longer_run.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/run_identity.h"
#include "penstock/train/run_loop.h"
#include "penstock/train/run_record.h"
#include "penstock/train/trainer.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

Corpus open_corpus(const std::string& path) {
  PENSTOCK_CHECK(!path.empty(),
                 "data.corpus is not set; name a folder that `penstock data prepare` made");
  PENSTOCK_CHECK(fs::exists(path), "data.corpus = ", path,
                 ": there is no such folder; make the corpus with `penstock data prepare`, or, "
                 "where it was moved, name its place as data.corpus (a run goes on "
                 "with it: content counts, not the place)");
  Corpus corpus = Corpus::open(path);
  corpus.file().verify();  // a flipped token would train silently
  return corpus;
}

/// The recipe; where the directory's run is to go on for longer, with that run's warm-up.
Recipe recipe_of(const ConfigNode& node, const std::string& directory, bool resume) {
  const std::string path = directory + "/config.toml";
  Recipe recipe = read_recipe(node);
  if (!resume || !fs::exists(path)) return recipe;
  return with_warm_up_of(recorded_recipe(path), std::move(recipe), node);
}

/// Refuses a model that this machine cannot hold, rather than be killed for it.
Trainer make_trainer(const Recipe& given, bool force) {
  Corpus corpus = open_corpus(given.data.corpus);
  const Recipe recipe = with_vocabulary(given, corpus);
  if (!force && recipe.run.device == "cpu") check_training_memory(recipe, available_memory_bytes());
  return Trainer(recipe, std::move(corpus));
}

class TrainTask : public RunTask {
 public:
  TrainTask(const Recipe& recipe, bool force)
      : threads_(ops::set_threads(static_cast<int>(recipe.run.threads))),
        peak_flops_(ops::measure_peak_flops(threads_)),
        trainer_(make_trainer(recipe, force)) {
    check_evaluations();
  }

  RunPlan plan() const override {
    const TrainConfig& train = recipe().train;
    return {.steps = train.steps,
            .measure_every = train.eval_every,
            .measure_first = train.eval_every > 0,
            .checkpoint_every = train.checkpoint_every,
            .checkpoints = {.keep_last = train.keep_last, .keep_best = train.keep_best},
            .tensorboard = recipe().run.tensorboard,
            .settings = {.clip = train.optimizer.clip,
                         .steered_experts = steered_experts(recipe().model)},
            .result_file = "finished.json"};
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> out = recipe().notes;
    if (const int cores = physical_cores(); threads_ > 2 * cores)
      out.push_back(fmt::format("run.threads = {} on {} {}: so many threads wait for each other",
                                threads_, cores, cores == 1 ? "core" : "cores"));
    return out;
  }

  std::string config_text() const override { return to_toml(written_out(recipe())); }

  std::int64_t check_same_run(const std::string& directory) const override {
    return check_continues(directory, recorded_recipe(directory + "/config.toml"), recipe());
  }

  std::int64_t step() const override { return trainer_.step(); }
  StepOutcome advance(const StepWatch& watch) override { return trainer_.advance(watch); }

  MachineRecord machine() const override {
    return machine_record(trainer_.model(), threads_, peak_flops_);
  }

  CheckpointContents contents() override {
    return {.model = trainer_.model_tensors(),
            .config_json = config_json_text(recipe().model),
            .files = trainer_.corpus().tokenizer().files(),
            .optimizer = trainer_.optimizer_tensors(),
            .trainer = {{"seed", recipe().train.seed},
                        {"corpus_hash", trainer_.corpus().content_hash()}}};
  }

  void restore(const CheckpointInfo& info, const CheckpointContents& contents) override {
    const std::string where = info.directory.string();
    PENSTOCK_CHECK(contents.trainer.value("corpus_hash", "") == trainer_.corpus().content_hash(),
                   where, ": was trained on another corpus than ", recipe().data.corpus);
    trainer_.restore(info.step, contents.model, contents.optimizer, where);
  }

  std::optional<Measured> measure(nlohmann::ordered_json& line,
                                  const MeasureWatch& watch) override {
    if (!has_split(Split::kValidation)) return std::nullopt;
    const TrainConfig& train = recipe().train;
    const Evaluation validation = trainer_.evaluate(
        Split::kValidation, train.eval_tokens, watching(Split::kValidation, watch), train.eval_k);
    line["validation"] = to_json(validation);
    if (train.eval_k > 0) line["validation"]["k"] = train.eval_k;
    const double loss = validation.total.loss();
    return Measured{.loss = loss, .shown = fmt::format("valid {:.4f}", plain_nan(loss))};
  }

  nlohmann::ordered_json result(const std::vector<nlohmann::ordered_json>& lines, CheckpointStore&,
                                const MeasureWatch& watch) override {
    const nlohmann::ordered_json validation = final_evaluation(Split::kValidation, watch);
    nlohmann::ordered_json out = finished_record(recipe(), lines, machine());
    out["validation"] = validation;
    out["test"] = final_evaluation(Split::kTest, watch);
    return out;
  }

  std::string summary(const nlohmann::ordered_json& result) const override {
    const nlohmann::ordered_json& validation = result.at("validation");
    if (validation.is_null()) return "no validation: the corpus has no held-out text";
    return fmt::format("validation loss {:.4f} nats, {:.4f} bits per byte",
                       plain_nan(validation["loss"].get<double>()),
                       plain_nan(validation["bits_per_byte"].get<double>()));
  }

 private:
  /// With the corpus's vocabulary.
  const Recipe& recipe() const { return trainer_.recipe(); }

  bool has_split(Split split) const { return trainer_.corpus().count(split).tokens > 1; }

  /// What would stop the run at its first evaluation stops it here, before it has cost anything.
  void check_evaluations() const {
    const TrainConfig& train = recipe().train;
    if (train.eval_streams == 0) return;
    for (const Split split : {Split::kValidation, Split::kTest})
      if (has_split(split))
        EvaluationStreams(trainer_.corpus(), split,
                          {.sequence_length = train.eval_sequence_length,
                           .batch_sequences = train.micro_batch,
                           .streams = train.eval_streams});
  }

  nlohmann::ordered_json final_evaluation(Split split, const MeasureWatch& watch) {
    if (!has_split(split)) return nullptr;
    return to_json(
        trainer_.evaluate(split, recipe().train.final_eval_tokens, watching(split, watch)));
  }

  static std::function<void(double, const LossTotals&)> watching(Split split,
                                                                 const MeasureWatch& watch) {
    return [split, &watch](double done, const LossTotals& totals) {
      watch([&] {
        return fmt::format("evaluating {} {:3.0f}%  loss {:.4f}", split_name(split), 100 * done,
                           plain_nan(totals.loss()));
      });
    };
  }

  int threads_;
  double peak_flops_;
  Trainer trainer_;
};

}  // namespace

RunOutcome train_run(const ConfigNode& node, const std::string& run_directory,
                     const TrainControl& control) {
  ops::restart_peak_memory();  // a study's runs share a process
  // What does not fit the corpus or the machine is a recipe's mistake too.
  const auto task = naming_origins(node, [&] {
    return std::make_unique<TrainTask>(recipe_of(node, run_directory, control.resume),
                                       control.force);
  });
  return run_task(*task, run_directory, control);
}

}  // namespace penstock
