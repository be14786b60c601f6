// The loop of a fine-tuning: what is written when, what a resumed run continues from, how it ends.
#include "penstock/finetune/run.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/file_lock.h"
#include "penstock/base/memory.h"
#include "penstock/base/processor_share.h"
#include "penstock/base/progress.h"
#include "penstock/finetune/finetuner.h"
#include "penstock/finetune/run_record.h"
#include "penstock/io/toml.h"
#include "penstock/train/checkpoints.h"
#include "penstock/train/interrupt.h"
#include "penstock/train/metrics_events.h"
#include "penstock/train/metrics_log.h"
#include "penstock/train/step_monitor.h"

namespace penstock {
namespace {

class FinetuneRun {
 public:
  FinetuneRun(const FinetuneRecord& record, std::string directory, const TrainControl& control)
      : directory_(std::move(directory)),
        control_(control),
        files_(control.files ? *control.files : real_file_system()),
        job_(prepare(record)),
        config_(job_.record.finetune),
        tuner_(job_.start.classifier, job_.train, config_, job_.start.k.train),
        store_(files_, directory_, {.keep_last = config_.keep_last, .keep_best = true}),
        progress_(control.quiet ? nullptr : control.progress) {}

  RunOutcome run() {
    claim_directory();
    store_.recover();
    resume();
    if (files_.exists(directory_ + "/" + kFinetuneResult)) {
      progress_.finish(directory_ + ": already finished");
      return RunOutcome::finished;
    }
    for (const auto& note : protocol_notes(config_, tuner_.classifier().body().config()))
      progress_.finish("note: " + note);
    log_.emplace(files_, directory_ + "/metrics.jsonl", tuner_.step());
    events_ = std::make_unique<TensorBoardWriter>(files_, directory_ + "/events", tuner_.step());
    const InterruptGuard interrupt(kStoppingLine, control_.quiet ? nullptr : control_.progress);
    interrupt_ = &interrupt;
    StepMonitor monitor(interrupt, progress_, {.part = "pass"});
    started_ = Clock::now();
    first_step_ = tuner_.step();
    try {
      if (unscored_) save(1 - score_selection().accuracy());
      while (tuner_.step() < tuner_.steps()) {
        if (interrupt.signal() != 0) return stopped();
        one_step(monitor);
      }
      finish();
    } catch (const StepStopped&) {
      return stopped(fmt::format("; step {} was given up", tuner_.step() + 1));
    } catch (const StoppedWhileScoring&) {
      return stopped();
    }
    return RunOutcome::finished;
  }

 private:
  using Clock = std::chrono::steady_clock;
  /// A signal while a set is scored; that score is made again by the resumed run.
  struct StoppedWhileScoring {};

  RunOutcome stopped(const std::string& unfinished = "") {
    save(std::nullopt);
    progress_.finish(fmt::format("stopped by signal {} after step {}{}{}", interrupt_->signal(),
                                 tuner_.step(), saved_step_ > 0 ? "; checkpoint saved" : "",
                                 unfinished));
    return RunOutcome::interrupted;
  }

  FinetuneJob prepare(const FinetuneRecord& record) const {
    FinetuneJob job = prepare_finetune_job(record);
    if (!control_.force) check_finetune_memory(job, available_memory_bytes());
    return job;
  }

  void claim_directory() {
    const std::string path = directory_ + "/config.toml";
    if (files_.exists(path)) {
      PENSTOCK_CHECK(
          control_.resume, directory_,
          ": holds a run already; continue it with options.resume, or choose another folder");
      const std::string other = difference(read_finetune_record(directory_), job_.record);
      PENSTOCK_CHECK(other.empty(), directory_, ": holds a fine-tuning of other settings (", other,
                     "); choose another folder");
    } else {
      PENSTOCK_CHECK(
          !files_.exists(directory_ + "/checkpoints"), directory_,
          ": holds checkpoints but no config.toml to say of what; choose another folder");
    }
    create_directories(files_, directory_);
    lock_.emplace(directory_ + "/.lock");
    write_file_atomically(files_, path, to_toml(write_config(job_.record)));
  }

  void resume() {
    const CheckpointSearch search = store_.latest();
    for (const auto& sentence : search.ignored) progress_.finish("passed over: " + sentence);
    PENSTOCK_CHECK(search.found || search.ignored.empty(), directory_, ": no checkpoint is whole (",
                   search.ignored.empty() ? "" : search.ignored.front(),
                   "); choose another folder to start again");
    if (!search.found) return;
    const CheckpointContents contents = store_.load(search.found->step);
    tuner_.restore(search.found->step, contents.model, contents.optimizer,
                   search.found->directory.string());
    for (const auto& line : read_metrics(files_, directory_ + "/metrics.jsonl"))
      if (line.at("step") == tuner_.step()) earlier_seconds_ = line.value("seconds", 0.0);
    saved_step_ = tuner_.step();
    unscored_ = contents.trainer.value("unscored", false);
    progress_.finish(fmt::format("continuing after step {}", tuner_.step()));
  }

  double seconds() const {
    return earlier_seconds_ + std::chrono::duration<double>(Clock::now() - started_).count();
  }

  std::int64_t eval_every() const {
    if (config_.eval_every >= 0) return config_.eval_every;
    return (tuner_.steps() + 9) / 10;
  }

  void one_step(StepMonitor& monitor) {
    const FinetuneStep outcome =
        monitor.during(tuner_.step() + 1, tuner_.steps(),
                       [&](const StepWatch& watch) { return tuner_.advance(watch); });
    if (!outcome.failure.empty()) {
      save(std::nullopt, Superseded::keep);
      const std::string kept = tuner_.step() > 0
                                   ? fmt::format("The state after step {} is saved", tuner_.step())
                                   : "No step was done";
      fail(directory_, ": step ", tuner_.step() + 1, " stopped: ", outcome.failure, ". ", kept,
           "; lower lr, or look at the data");
    }
    const std::int64_t step = tuner_.step();
    tokens_ += outcome.tokens;
    loss_ = first_step_ + 1 == step ? outcome.loss : 0.95 * loss_ + 0.05 * outcome.loss;
    accuracy_ =
        first_step_ + 1 == step ? outcome.accuracy : 0.95 * accuracy_ + 0.05 * outcome.accuracy;
    nlohmann::ordered_json line = finetune_metrics_line(step, outcome);
    const bool last = step == tuner_.steps();
    const bool due = last || (eval_every() > 0 && step % eval_every() == 0);
    std::optional<double> error;
    unscored_ = due;
    const auto log = [&] {
      line["seconds"] = seconds();
      log_->append(line);
      write_metrics_event(*events_, line);
    };
    if (due) try {
        const ClassificationScore selected = score_selection();
        error = 1 - selected.accuracy();
        line["selection"] = {{"k", or_null(job_.start.k.selection)},
                             {"accuracy", selected.accuracy()},
                             {"macro_f1", selected.macro_f1()},
                             {"loss", selected.loss()}};
      } catch (const StoppedWhileScoring&) {
        log();
        throw;
      }
    log();
    if (due) save(error);
    if (monitor.spoke() || progress_.due()) show();
  }

  ScoreOptions watched(const std::string& what) {
    ScoreOptions options = protocol_score_options(config_);
    options.progress = [this, what](double done, const ClassificationScore& sofar) {
      if (interrupt_->signal() != 0) throw StoppedWhileScoring();
      if (progress_.due())
        progress_.show(fmt::format("{} {:3.0f}%  accuracy {:.2f} %", what, 100 * done,
                                   100 * sofar.accuracy()));
    };
    return options;
  }

  ClassificationScore score_selection() {
    ScoreOptions options = watched(fmt::format("step {}: selection", tuner_.step()));
    options.k = job_.start.k.selection;
    const ClassificationScore result = score(tuner_.classifier(), job_.selection, options);
    unscored_ = false;
    selection_accuracy_ = result.accuracy();
    return result;
  }

  void save(std::optional<double> error, Superseded superseded = Superseded::remove) {
    if (tuner_.step() == 0 || (saved_step_ == tuner_.step() && !error)) return;
    log_->sync();
    CheckpointContents contents;
    contents.model = tuner_.classifier().tensors();
    contents.config_json =
        classifier_config_json(tuner_.classifier().body().config(), job_.splits.train.class_names);
    contents.files = job_.encoder->files();
    contents.optimizer = tuner_.optimizer_tensors();
    contents.trainer = {{"step", tuner_.step()}, {"seed", config_.seed}, {"unscored", unscored_}};
    store_.save(tuner_.step(), contents, error, superseded);
    saved_step_ = tuner_.step();
  }

  void show() {
    const std::int64_t step = tuner_.step();
    const double spent = seconds() - earlier_seconds_;
    const double left = spent / static_cast<double>(step - first_step_) *
                        static_cast<double>(tuner_.steps() - step);
    std::vector<ProgressField> fields = {{.text = fmt::format("step {}/{}", step, tuner_.steps())}};
    if (const auto busy = busy_field(processor_.look(), at::get_num_threads()))
      fields.push_back(*busy);
    fields.push_back({.text = fmt::format("loss {:.4f}", loss_)});
    fields.push_back({.text = fmt::format("accuracy {:.1f} %", 100 * accuracy_), .rank = 2});
    if (selection_accuracy_)
      fields.push_back({.text = fmt::format("selection {:.2f} %", 100 * *selection_accuracy_)});
    fields.push_back(
        {.text = fmt::format("{:.0f} tokens/s", static_cast<double>(tokens_) / spent), .rank = 3});
    fields.push_back({.text = duration_text(left) + " left"});
    progress_.show(fitted_line(std::move(fields), progress_.columns()));
  }

  void finish() {
    progress_.finish();
    events_->sync();
    events_.reset();
    log_.reset();
    const nlohmann::ordered_json result = finetune_result(
        job_, store_,
        [this](std::int64_t k) { return watched(k > 0 ? fmt::format("test at k={}", k) : "test"); },
        seconds(), directory_);
    write_file_atomically(files_, directory_ + "/" + kFinetuneResult, result.dump(2) + "\n");
  }

  std::string directory_;
  TrainControl control_;
  FileSystem& files_;
  FinetuneJob job_;
  const FinetuneConfig& config_;  // the job's
  Finetuner tuner_;
  CheckpointStore store_;
  ProgressLine progress_;
  ProcessorShare processor_;
  const InterruptGuard* interrupt_ = nullptr;  // while run() lasts
  std::optional<FileLock> lock_;
  std::optional<MetricsLog> log_;
  std::unique_ptr<TensorBoardWriter> events_;
  Clock::time_point started_;
  std::int64_t first_step_ = 0, saved_step_ = 0, tokens_ = 0;
  double earlier_seconds_ = 0, loss_ = 0, accuracy_ = 0;
  std::optional<double> selection_accuracy_;
  bool unscored_ = false;  // a score is due for the last step, and was stopped
};

}  // namespace

RunOutcome finetune_run(const FinetuneRecord& record, const std::string& run_directory,
                        const TrainControl& control) {
  return FinetuneRun(record, run_directory, control).run();
}

}  // namespace penstock
