// A run directory: what is written when, what a resumed run continues from, and how it ends.
#include "penstock/train/run.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "penstock/base/atomic_files.h"
#include "penstock/base/config_origin.h"
#include "penstock/base/error.h"
#include "penstock/base/file_lock.h"
#include "penstock/base/memory.h"
#include "penstock/base/processor_share.h"
#include "penstock/base/progress.h"
#include "penstock/base/threads.h"
#include "penstock/data/batches.h"
#include "penstock/io/toml.h"
#include "penstock/models/model_directory.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine.h"
#include "penstock/train/checkpoints.h"
#include "penstock/train/interrupt.h"
#include "penstock/train/longer_run.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/metrics_events.h"
#include "penstock/train/metrics_log.h"
#include "penstock/train/run_identity.h"
#include "penstock/train/run_record.h"
#include "penstock/train/step_monitor.h"
#include "penstock/train/tensorboard.h"
#include "penstock/train/trainer.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

class Run {
 public:
  Run(const ConfigNode& node, std::string directory, const TrainControl& control)
      : directory_(std::move(directory)),
        control_(control),
        files_(control.files ? *control.files : real_file_system()),
        recipe_(recipe_of(node)),
        threads_(ops::set_threads(static_cast<int>(recipe_.run.threads))),
        peak_flops_(ops::measure_peak_flops(threads_)),
        trainer_(make_trainer()),
        progress_(control.quiet ? nullptr : control.progress),
        watch_(recipe_.train.clip) {
    recipe_ = trainer_.recipe();
    check_evaluations();
  }

  RunOutcome run() {
    claim_directory();
    for (const auto& note : recipe_.notes) progress_.finish("note: " + note);
    if (longer_than_ > 0)
      progress_.finish(
          fmt::format("the run goes on beyond step {}, where it was to end", longer_than_));
    if (const int cores = physical_cores(); threads_ > 2 * cores)
      progress_.finish(fmt::format("run.threads = {} on {} {}: so many threads wait for each other",
                                   threads_, cores, cores == 1 ? "core" : "cores"));
    CheckpointStore store(
        files_, directory_,
        {.keep_last = recipe_.train.keep_last, .keep_best = recipe_.train.keep_best});
    store.recover();
    resume(store);
    if (finished()) {
      if (trainer_.step() >= recipe_.train.steps) {
        progress_.finish(directory_ + ": already finished");
        return RunOutcome::finished;
      }
      progress_.finish(directory_ +
                       ": had finished, but its last checkpoint is not whole; its last "
                       "steps are trained again");
    }
    log_.emplace(files_, directory_ + "/metrics.jsonl", logged_step());
    if (!log_->missing_steps().empty())
      progress_.finish(directory_ + "/metrics.jsonl: steps " + log_->missing_steps() +
                       " are missing; training does not need them, but curves, medians and "
                       "finished.json will be without them");
    if (recipe_.run.tensorboard)
      events_ = std::make_unique<TensorBoardWriter>(files_, directory_ + "/events", logged_step());
    const InterruptGuard interrupt(kStoppingLine, control_.quiet ? nullptr : control_.progress);
    interrupt_ = &interrupt;
    StepMonitor monitor(interrupt, progress_, {});
    started_ = Clock::now();
    first_step_ = trainer_.step();
    try {
      if (trainer_.step() == 0 && recipe_.train.eval_every > 0) measure_the_beginning();
      if (!unvalidated_.is_null()) complete(store, nlohmann::ordered_json(unvalidated_));
      while (trainer_.step() < recipe_.train.steps) {
        if (interrupt.signal() != 0) return stopped(store);
        one_step(store, monitor);
      }
      finish(store);
    } catch (const StepStopped&) {
      return stopped(store, fmt::format("; step {} was given up", trainer_.step() + 1));
    } catch (const StoppedWhileMeasuring&) {
      return stopped(store);
    }
    return RunOutcome::finished;
  }

 private:
  /// A signal during an evaluation, which the resumed run begins again.
  struct StoppedWhileMeasuring {};

  /// The last step in metrics.jsonl: the state's, but for one whose validation was stopped.
  std::int64_t logged_step() const { return trainer_.step() - (unvalidated_.is_null() ? 0 : 1); }

  RunOutcome stopped(CheckpointStore& store, const std::string& unfinished = "") {
    save(store, std::nullopt);
    progress_.finish(fmt::format("stopped by signal {} after step {}{}{}", interrupt_->signal(),
                                 trainer_.step(), trainer_.step() > 0 ? "; checkpoint saved" : "",
                                 unfinished));
    return RunOutcome::interrupted;
  }

  Corpus open_corpus() const {
    PENSTOCK_CHECK(!recipe_.data.corpus.empty(),
                   "data.corpus is not set; name a folder that `penstock data prepare` made");
    PENSTOCK_CHECK(fs::exists(recipe_.data.corpus), "data.corpus = ", recipe_.data.corpus,
                   ": there is no such folder; make the corpus with `penstock data prepare`, or, "
                   "where it was moved, name its place as data.corpus (a run goes on "
                   "with it: content counts, not the place)");
    Corpus corpus = Corpus::open(recipe_.data.corpus);
    corpus.file().verify();  // a flipped token would train silently
    return corpus;
  }

  /// Refuses a model that this machine cannot hold, rather than be killed for it.
  Trainer make_trainer() const {
    Corpus corpus = open_corpus();
    const Recipe recipe = with_vocabulary(recipe_, corpus);
    if (!control_.force && recipe.run.device == "cpu")
      check_training_memory(recipe, available_memory_bytes());
    return Trainer(recipe, std::move(corpus));
  }

  /// What would stop the run at its first evaluation stops it here, before it has cost anything.
  void check_evaluations() const {
    const TrainConfig& train = recipe_.train;
    if (train.eval_streams == 0) return;
    for (const Split split : {Split::kValidation, Split::kTest})
      if (has_split(split))
        EvaluationStreams(trainer_.corpus(), split,
                          {.sequence_length = train.eval_sequence_length,
                           .batch_sequences = train.micro_batch,
                           .streams = train.eval_streams});
  }

  bool finished() const { return fs::exists(directory_ + "/finished.json"); }

  /// Writes config.toml, or checks that the one there is of the same run.
  void claim_directory() {
    const std::string path = directory_ + "/config.toml";
    const std::string text = to_toml(written_out(recipe_));
    if (fs::exists(path)) {
      PENSTOCK_CHECK(
          control_.resume, directory_,
          ": holds a run already; continue it with options.resume, or choose another folder");
      longer_than_ = check_continues(directory_, recorded_recipe(path), recipe_);
    }
    PENSTOCK_CHECK(fs::exists(path) || !fs::exists(directory_ + "/checkpoints"), directory_,
                   ": holds checkpoints but no config.toml to say of which recipe; choose another "
                   "folder");
    create_directories(files_, directory_);
    lock_.emplace(directory_ + "/.lock");
    // Before the longer recipe is there: what says "finished" is of the shorter one.
    if (longer_than_ > 0) files_.remove_all(directory_ + "/finished.json");
    write_file_atomically(files_, path, text);
  }

  /// The recipe; where the directory's run is to go on for longer, with that run's warm-up.
  Recipe recipe_of(const ConfigNode& node) const {
    const std::string path = directory_ + "/config.toml";
    Recipe recipe = read_recipe(node);
    if (!control_.resume || !fs::exists(path)) return recipe;
    return with_warm_up_of(recorded_recipe(path), std::move(recipe), node);
  }

  void resume(CheckpointStore& store) {
    const CheckpointSearch search = store.latest();
    for (const auto& sentence : search.ignored) progress_.finish("passed over: " + sentence);
    PENSTOCK_CHECK(search.found || search.ignored.empty(), directory_, ": no checkpoint is whole (",
                   search.ignored.empty() ? "" : search.ignored.front(),
                   "); choose another folder to start again");
    if (!search.found) return;
    const std::int64_t step = search.found->step;
    const CheckpointContents contents = store.load(step);
    const auto& state = contents.trainer;
    const std::string where = search.found->directory.string();
    PENSTOCK_CHECK(state.value("corpus_hash", "") == trainer_.corpus().content_hash(), where,
                   ": was trained on another corpus than ", recipe_.data.corpus);
    trainer_.restore(step, contents.model, contents.optimizer, where);
    if (const auto line = state.find("unvalidated_line"); line != state.end())
      unvalidated_ = nlohmann::ordered_json::parse(line->get<std::string>());
    for (const auto& line : read_metrics(files_, directory_ + "/metrics.jsonl")) {
      if (line.at("step") > 0 && line.at("step") <= logged_step())
        watch_.see(watched_step(line));  // said when it was seen
      if (line.at("step") == logged_step()) earlier_seconds_ = line.value("seconds", 0.0);
    }
    if (!unvalidated_.is_null()) watch_.see(watched_step(unvalidated_));
    if (state.contains("best_loss") && state["best_loss"].is_number())
      best_loss_ = state["best_loss"].get<double>();
    saved_step_ = step;
    progress_.finish(fmt::format("continuing after step {}", step));
  }

  double seconds() const {
    return earlier_seconds_ + std::chrono::duration<double>(Clock::now() - started_).count();
  }

  void one_step(CheckpointStore& store, StepMonitor& monitor) {
    const StepOutcome outcome =
        monitor.during(trainer_.step() + 1, recipe_.train.steps,
                       [&](const StepWatch& watch) { return trainer_.advance(watch); });
    if (!outcome.failure.empty()) {
      // Nothing is removed for it: if this state's own update blew up, an earlier one is wanted.
      save(store, std::nullopt, Superseded::keep);
      const std::string kept =
          trainer_.step() > 0 ? fmt::format("The state after step {} is saved", trainer_.step())
                              : "No step was done";
      throw DivergedError(concat(directory_, ": step ", trainer_.step() + 1,
                                 " stopped: ", outcome.failure, ". ", kept,
                                 "; lower train.lr, or look at the data"));
    }
    nlohmann::ordered_json line = metrics_line(trainer_.step(), outcome, *this_machine());
    warn(line);
    complete(store, std::move(line));
    if (monitor.spoke() || progress_.due()) show(outcome);
  }

  /// What follows the last step: its validation, its line of the log and its checkpoint, if due.
  void complete(CheckpointStore& store, nlohmann::ordered_json line) {
    const std::int64_t step = trainer_.step();
    std::optional<double> validation_loss;
    const TrainConfig& train = recipe_.train;
    const bool last = step == train.steps;
    unvalidated_ = line;  // as long as the validation may be stopped
    if (train.eval_every > 0 && (last || step % train.eval_every == 0))
      validation_loss = validate(line);
    unvalidated_ = nullptr;
    append(std::move(line));
    const bool improved = validation_loss && *validation_loss < best_loss_;
    if (improved) best_loss_ = *validation_loss;
    const bool due = train.checkpoint_every > 0 && step % train.checkpoint_every == 0;
    if (last || due || (improved && train.keep_best)) save(store, validation_loss);
  }

  /// Says what is wrong with the step's objective, and adds it to its line.
  void warn(nlohmann::ordered_json& line) {
    for (const RunWarning& warning : watch_.see(watched_step(line))) {
      line["warnings"].push_back(
          {{"name", warning.name}, {"finding", warning.finding}, {"remedy", warning.remedy}});
      progress_.finish(fmt::format("warning: step {}: {}; {}", trainer_.step(), warning.finding,
                                   warning.remedy));
    }
  }

  /// Puts the validation at this step into the line; the loss, where there is a split to measure.
  std::optional<double> validate(nlohmann::ordered_json& line) {
    if (!has_split(Split::kValidation)) return std::nullopt;
    const TrainConfig& train = recipe_.train;
    const Evaluation validation = trainer_.evaluate(Split::kValidation, train.eval_tokens,
                                                    watching(Split::kValidation), train.eval_k);
    last_validation_ = validation.total.loss();
    line["validation"] = to_json(validation);
    if (train.eval_k > 0) line["validation"]["k"] = train.eval_k;
    return last_validation_;
  }

  /// Where validation begins, as step 0 of the log. No bit of training depends on it, and no
  /// checkpoint is the best for it.
  void measure_the_beginning() {
    if (log_->last_step() == 0) return;  // this run was killed before its first checkpoint
    nlohmann::ordered_json line = {{"step", 0}};
    if (validate(line)) append(std::move(line));
  }

  void append(nlohmann::ordered_json line) {
    line["seconds"] = seconds();
    log_->append(line);
    if (events_) write_metrics_event(*events_, line);
  }

  bool has_split(Split split) const { return trainer_.corpus().count(split).tokens > 1; }

  nlohmann::ordered_json final_evaluation(Split split) {
    if (!has_split(split)) return nullptr;
    return to_json(trainer_.evaluate(split, recipe_.train.final_eval_tokens, watching(split)));
  }

  /// Stops the evaluation at a signal, and shows how far it is.
  std::function<void(double, const LossTotals&)> watching(Split split) {
    return [this, split](double done, const LossTotals& totals) {
      if (interrupt_->signal() != 0) throw StoppedWhileMeasuring();
      if (progress_.due())
        progress_.show(fmt::format("evaluating {} {:3.0f}%  loss {:.4f}", split_name(split),
                                   100 * done, totals.loss()));
    };
  }

  const MachineRecord* this_machine() {
    machine_ = {.threads = threads_, .peak_flops = peak_flops_};
    for (const auto& balancer : trainer_.model().balancers())
      for (const auto& [name, value] : balancer->state()) machine_.balancer_state[name] = value;
    return &machine_;
  }

  void save(CheckpointStore& store, std::optional<double> validation_loss,
            Superseded superseded = Superseded::remove) {
    if (trainer_.step() == 0 || (saved_step_ == trainer_.step() && !validation_loss)) return;
    log_->sync();
    CheckpointContents contents;
    contents.model = trainer_.model_tensors();
    contents.config_json = config_json_text(recipe_.model);
    contents.files = trainer_.corpus().tokenizer().files();
    contents.optimizer = trainer_.optimizer_tensors();
    contents.trainer = {{"step", trainer_.step()},
                        {"seed", recipe_.train.seed},
                        {"corpus_hash", trainer_.corpus().content_hash()}};
    if (!unvalidated_.is_null()) contents.trainer["unvalidated_line"] = unvalidated_.dump();
    if (std::isfinite(best_loss_)) contents.trainer["best_loss"] = best_loss_;
    store.save(trainer_.step(), contents, validation_loss, superseded);
    saved_step_ = trainer_.step();
  }

  void show(const StepOutcome& outcome) {
    const std::int64_t step = trainer_.step(), done = step - first_step_;
    const double left = (seconds() - earlier_seconds_) / static_cast<double>(done) *
                        static_cast<double>(recipe_.train.steps - step);
    progress_.show(progress_text(step, recipe_.train.steps, outcome, *this_machine(),
                                 last_validation_, left, busy_field(processor_.look(), threads_),
                                 progress_.columns()));
  }

  void finish(CheckpointStore& store) {
    progress_.finish();
    save(store, std::nullopt);
    if (events_) events_->sync();
    events_.reset();
    log_.reset();
    // Measured after the last checkpoint: a run that is killed here only measures again.
    const nlohmann::ordered_json validation = final_evaluation(Split::kValidation);
    nlohmann::ordered_json record = finished_record(recipe_, directory_, *this_machine());
    record["validation"] = validation;
    record["test"] = final_evaluation(Split::kTest);
    record["seconds"] = seconds();
    write_file_atomically(files_, directory_ + "/finished.json", record.dump(2) + "\n");
    const std::string measured =
        validation.is_null() ? std::string("no validation: the corpus has no held-out text")
                             : fmt::format("validation loss {:.4f} nats, {:.4f} bits per byte",
                                           validation["loss"].get<double>(),
                                           validation["bits_per_byte"].get<double>());
    progress_.finish(fmt::format("{}: {} steps, {}, {}", directory_, recipe_.train.steps, measured,
                                 duration_text(seconds())));
  }

  std::string directory_;
  TrainControl control_;
  FileSystem& files_;
  Recipe recipe_;
  int threads_;
  double peak_flops_;
  Trainer trainer_;
  ProgressLine progress_;
  ObjectiveWatch watch_;
  ProcessorShare processor_;
  MachineRecord machine_;
  nlohmann::ordered_json unvalidated_;         // the last step's line, if its validation is due
  const InterruptGuard* interrupt_ = nullptr;  // while run() lasts
  std::optional<FileLock> lock_;
  std::optional<MetricsLog> log_;
  std::unique_ptr<TensorBoardWriter> events_;
  Clock::time_point started_;
  std::int64_t first_step_ = 0, saved_step_ = 0;
  std::int64_t longer_than_ = 0;  // steps that the directory's run was begun for, if fewer
  double earlier_seconds_ = 0;
  double best_loss_ = INFINITY, last_validation_ = NAN;
};

}  // namespace

RunOutcome train_run(const ConfigNode& recipe, const std::string& run_directory,
                     const TrainControl& control) {
  ops::restart_peak_memory();  // a study's runs share a process
  // What does not fit the corpus or the machine is a recipe's mistake too.
  const auto run =
      naming_origins(recipe, [&] { return std::make_unique<Run>(recipe, run_directory, control); });
  return run->run();
}

}  // namespace penstock
