// The fine-tuning as a task of the run loop: job and classifier, scores on the selection set, and
// the test.
#include "penstock/finetune/run.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "penstock/base/error.h"
#include "penstock/base/memory.h"
#include "penstock/finetune/finetuner.h"
#include "penstock/finetune/run_record.h"
#include "penstock/finetune/test_result.h"
#include "penstock/models/counts/training_memory.h"
#include "penstock/ops/machine/machine.h"
#include "penstock/train/run_loop.h"
#include "penstock/train/step/product_precision.h"

namespace penstock {
namespace {

FinetuneJob prepare(const FinetuneRecord& record, bool force) {
  const FinetuneConfig& config = record.finetune;
  prepare_products({.precision = config.precision, .emulate = config.emulate_bf16});
  FinetuneJob job = prepare_finetune_job(record);
  if (!force) check_finetune_memory(job, available_memory_bytes());
  return job;
}

class FinetuneTask : public RunTask {
 public:
  FinetuneTask(const FinetuneRecord& record, bool force)
      : job_(prepare(record, force)),
        config_(job_.record.finetune),
        available_(available_memory_bytes()),
        tuner_(job_.start.classifier, job_.train, config_, job_.start.k.train) {}

  RunPlan plan() const override {
    const std::int64_t every =
        config_.eval_every >= 0 ? config_.eval_every : (tuner_.steps() + 9) / 10;
    const TrainingMemory memory = finetune_memory(job_);
    const std::int64_t to_take = memory.total() - memory.parameter_bytes;  // the model is loaded
    const bool on_the_way = every > 0 && every < tuner_.steps();
    return {.steps = tuner_.steps(),
            .measure_every = every,
            .measure_last = true,
            .checkpoint_every = every,
            .copy_bytes = on_the_way ? memory.parameter_bytes + memory.optimizer_bytes : 0,
            .memory_left = available_ - static_cast<double>(to_take),
            .checkpoints = {.keep_last = config_.keep_last, .keep_best = true},
            .smoothing = 0.95,
            .settings = {.clip = config_.optimizer.clip,
                         .steered_experts =
                             config_.auxiliary_losses ? steered_experts(body().config()) : 0,
                         .keys = "",
                         .remedy =
                             [](const std::string&) {
                               return std::string(
                                   "auxiliary_losses = false leaves the losses of the "
                                   "balancers out");
                             }},
            .part = "pass",
            .result_file = kFinetuneResult};
  }

  std::vector<std::string> notes() const override {
    return protocol_notes(config_, body().config());
  }

  std::string config_text() const override { return to_toml(write_config(job_.record)); }

  std::int64_t check_same_run(const std::string& directory) const override {
    const std::string other = difference(read_finetune_record(directory), job_.record);
    PENSTOCK_CHECK(other.empty(), directory, ": holds a fine-tuning of other settings (", other,
                   "); choose another folder");
    return 0;
  }

  std::int64_t step() const override { return tuner_.step(); }
  StepOutcome advance(const StepWatch& watch) override { return tuner_.advance(watch); }

  MachineRecord machine() const override {
    return machine_record(body(), at::get_num_threads(), 0);
  }

  CheckpointContents contents() override {
    CheckpointContents out{
        .model = tuner_.classifier().tensors(),
        .config_json = classifier_config_json(body().config(), job_.splits.train.class_names),
        .files = job_.encoder->files(),
        .optimizer = tuner_.optimizer_tensors(),
        .trainer = {{"seed", config_.seed}}};
    record_product_unit(config_.precision, out.trainer);
    return out;
  }

  void restore(const CheckpointInfo& info, const CheckpointContents& contents) override {
    tuner_.restore(info.step, contents.model, contents.optimizer, info.directory.string());
  }

  std::optional<Measured> measure(nlohmann::ordered_json& line,
                                  const MeasureWatch& watch) override {
    ScoreOptions options = watched("selection", watch);
    options.k = job_.start.k.selection;
    const ClassificationScore selected = score(tuner_.classifier(), job_.selection, options);
    line["selection"] = {{"k", or_null(job_.start.k.selection)},
                         {"accuracy", selected.accuracy()},
                         {"macro_f1", selected.macro_f1()},
                         {"loss", selected.loss()}};
    return Measured{.loss = 1 - selected.accuracy(),
                    .shown = fmt::format("selection {:.2f} %", 100 * selected.accuracy())};
  }

  nlohmann::ordered_json result(const std::vector<nlohmann::ordered_json>& lines,
                                CheckpointStore& store, const MeasureWatch& watch) override {
    nlohmann::ordered_json out = finetune_result(job_, store, [&](std::int64_t k) {
      return watched(k > 0 ? fmt::format("test at k={}", k) : "test", watch);
    });
    out["warnings"] = run_warnings(lines);
    return out;
  }

  std::string summary(const nlohmann::ordered_json&) const override { return ""; }

 private:
  LanguageModel& body() const { return tuner_.classifier().body(); }

  ScoreOptions watched(const std::string& what, const MeasureWatch& watch) const {
    ScoreOptions options = protocol_score_options(config_);
    options.progress = [what, &watch](double done, const ClassificationScore& sofar) {
      watch([&] {
        return fmt::format("{} {:3.0f}%  accuracy {:.2f} %", what, 100 * done,
                           100 * sofar.accuracy());
      });
    };
    return options;
  }

  FinetuneJob job_;
  const FinetuneConfig& config_;  // the job's config
  double available_;              // bytes available when only the model is loaded
  Finetuner tuner_;
};

}  // namespace

RunOutcome finetune_run(const FinetuneRecord& record, const std::string& run_directory,
                        const TrainControl& control) {
  ops::restart_peak_memory();  // a study's runs share a process
  FinetuneTask task(record, control.force);
  return run_task(task, run_directory, control);
}

}  // namespace penstock
