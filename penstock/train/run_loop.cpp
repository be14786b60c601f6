#include "penstock/train/run_loop.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <utility>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/file_lock.h"
#include "penstock/base/json_text.h"
#include "penstock/base/number_text.h"
#include "penstock/base/progress.h"
#include "penstock/base/stopwatch.h"
#include "penstock/train/interrupt.h"
#include "penstock/train/metrics_events.h"
#include "penstock/train/metrics_log.h"
#include "penstock/train/output_folder.h"
#include "penstock/train/run_saver.h"
#include "penstock/train/step/product_precision.h"
#include "penstock/train/step/step_monitor.h"
#include "penstock/train/step_display.h"
#include "penstock/train/tensorboard.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

/// Thrown if a signal stops a measurement. The resumed run begins the measurement again.
struct StoppedWhileMeasuring {};

class RunLoop {
 public:
  RunLoop(RunTask& task, std::string directory, const TrainControl& control)
      : task_(task),
        plan_(task.plan()),
        directory_(std::move(directory)),
        control_(control),
        files_(control.files ? *control.files : real_file_system()),
        store_(files_, directory_, plan_.checkpoints),
        progress_(control.quiet ? nullptr : control.progress),
        display_(progress_, plan_.steps, plan_.smoothing),
        watch_(plan_.settings),
        saver_(task_, plan_, store_, progress_, [this] { log_->sync(); }) {}

  RunOutcome run() {
    claim_directory();
    store_.recover();
    saver_.choose_writers(files_);
    for (const auto& notes : {task_.notes(), saver_.notes()})
      for (const auto& note : notes) progress_.finish("note: " + note);
    if (longer_than_ > 0)
      progress_.finish(
          fmt::format("the run goes on beyond step {}, where it was to end", longer_than_));
    resume();
    if (files_.exists(result_path())) {
      if (task_.step() >= plan_.steps) {
        progress_.finish(directory_ + ": already finished");
        return RunOutcome::finished;
      }
      progress_.finish(directory_ +
                       ": had finished, but its last checkpoint is not whole; its last "
                       "steps are trained again");
    }
    open_logs();
    const InterruptGuard interrupt(kStoppingLine, control_.quiet ? nullptr : control_.progress);
    interrupt_ = &interrupt;
    since_start_ = Stopwatch();
    display_.begin(task_.step());
    try {
      return run_steps();
    } catch (const StepStopped& stop) {
      return stopped(stop.signal(), fmt::format("; step {} was given up", task_.step() + 1));
    } catch (const StoppedWhileMeasuring&) {
      return stopped(interrupt_->signal());
    }
  }

 private:
  std::string result_path() const { return directory_ + "/" + plan_.result_file; }
  std::string log_path() const { return directory_ + "/metrics.jsonl"; }
  /// The last step in metrics.jsonl: the state's step, or the one before if the measurement of the
  /// state's step was stopped.
  std::int64_t logged_step() const { return task_.step() - (unmeasured_.is_null() ? 0 : 1); }
  double seconds() const { return earlier_seconds_ + since_start_.seconds(); }

  /// Writes config.toml, or checks that the one there is of the same run.
  void claim_directory() {
    const std::string path = directory_ + "/config.toml", text = task_.config_text();
    if (files_.exists(path)) {
      PENSTOCK_CHECK(
          control_.resume, directory_,
          ": holds a run already; continue it with options.resume, or choose another folder");
      longer_than_ = task_.check_same_run(directory_);
    } else {
      PENSTOCK_CHECK(
          !files_.exists(directory_ + "/checkpoints"), directory_,
          ": holds checkpoints but no config.toml to say of what; choose another folder");
      check_output_folder(files_, directory_, kRunFolder);
    }
    create_directories(files_, directory_);
    lock_.emplace(directory_ + "/.lock");
    // Removed before the longer recipe is written: this result is that of the shorter run.
    if (longer_than_ > 0) files_.remove_all(result_path());
    write_file_atomically(files_, path, text);
  }

  /// Throws where the folder is no longer the claimed one. A checkpoint would make a folder without
  /// a recipe, or get into the folder of another run. Where only `.lock` was deleted, makes it
  /// anew.
  void check_folder() {
    PENSTOCK_CHECK(lock_->keep(), directory_, ": was deleted, moved or replaced during step ",
                   task_.step(),
                   "; the run ends and writes nothing more. Where the folder was moved, resume it "
                   "at its new place");
  }

  void resume() {
    const CheckpointSearch search = store_.latest([this] { task_.keep_waiting(); });
    for (const auto& sentence : search.ignored) progress_.finish("passed over: " + sentence);
    PENSTOCK_CHECK(search.found || search.ignored.empty(), directory_, ": no checkpoint is whole (",
                   search.ignored.empty() ? "" : search.ignored.front(),
                   "); choose another folder to start again");
    if (!search.found) {
      const std::vector<Json> lines = read_metrics(files_, log_path());
      const auto steps = std::ranges::count_if(
          lines, [](const Json& line) { return line.at("step").get<std::int64_t>() > 0; });
      if (steps > 0)
        progress_.finish(concat("note: ", directory_, " has no checkpoint. Training begins again, ",
                                "and replaces the log of ", count_text(steps, "step")));
      return;
    }
    const CheckpointContents contents = open_checkpoint(files_, search.found->directory);
    task_.restore(*search.found, contents);
    saver_.restored();
    if (const std::string note = product_unit_note(contents.trainer); !note.empty())
      progress_.finish("note: " + note);
    const std::vector<Json> lines = read_metrics(files_, log_path());
    const auto& state = contents.trainer;
    if (const auto line = state.find("unvalidated_line"); line != state.end())
      unmeasured_ = Json::parse(line->get<std::string>());
    else if (state.value("unscored", false))  // an older fine-tuning, which has logged it
      unmeasured_ = line_of(lines, task_.step());
    for (const auto& line : lines) {
      if (line.at("step") > 0 && line.at("step") <= logged_step())
        watch_.see(watched_step(line));  // its warnings were shown before
      if (line.at("step") == logged_step()) earlier_seconds_ = line.value("seconds", 0.0);
    }
    if (!unmeasured_.is_null()) watch_.see(watched_step(unmeasured_));
    if (state.contains("best_loss") && state["best_loss"].is_number())
      best_loss_ = state["best_loss"].get<double>();
    progress_.finish(fmt::format("continuing after step {}", task_.step()));
  }

  static Json line_of(const std::vector<Json>& lines, std::int64_t step) {
    for (const auto& line : lines)
      if (line.at("step") == step) return line;
    return {{"step", step}};
  }

  void open_logs() {
    log_.emplace(files_, log_path(), logged_step());
    if (!log_->missing_steps().empty())
      progress_.finish(log_path() + ": steps " + log_->missing_steps() +
                       " are missing; training does not need them, but curves, medians and " +
                       plan_.result_file + " will be without them");
    if (plan_.tensorboard)
      events_ = std::make_unique<TensorBoardWriter>(files_, directory_ + "/events", logged_step());
  }

  RunOutcome run_steps() {
    StepMonitor monitor(*interrupt_, progress_, {.part = plan_.part});
    saver_.make_room();
    // A run that was killed before its first checkpoint may have measured its beginning.
    if (task_.step() == 0 && plan_.measure_first && log_->last_step() != 0) measure_the_beginning();
    if (!unmeasured_.is_null()) complete(Json(unmeasured_));
    while (task_.step() < plan_.steps) {
      if (told_to_stop()) return stopped(interrupt_->signal());
      one_step(monitor);
      saver_.check_written();
    }
    if (unwanted_) return stopped(interrupt_->signal());
    finish();
    return RunOutcome::finished;
  }

  bool told_to_stop() const { return unwanted_ || interrupt_->signal() != 0; }

  /// @param signal  0: TrainControl::logged asked for the stop
  RunOutcome stopped(int signal, const std::string& unfinished = "") {
    save(std::nullopt, Training::waits);
    const std::string by = signal != 0 ? fmt::format(" by signal {}", signal) : " as asked";
    progress_.finish(fmt::format("stopped{} after step {}{}{}", by, task_.step(),
                                 task_.step() > 0 ? "; checkpoint saved" : "", unfinished));
    return RunOutcome::interrupted;
  }

  void one_step(StepMonitor& monitor) {
    StepOutcome outcome =
        monitor.during(task_.step() + 1, plan_.steps,
                       [&](const StepWatch& watch) { return task_.advance(watch); });
    if (!outcome.failure.empty()) diverged(outcome.failure);
    Json line = metrics_line(task_.step(), outcome, task_.machine());
    if (const double waited = saver_.waited_seconds(); waited > 0)
      line["checkpoint_seconds"] = waited;
    warn(line);
    complete(std::move(line));
    display_.smooth(task_.step(), outcome.report);
    if (monitor.has_shown_text() || progress_.due())
      display_.show(task_.step(), outcome, task_.machine(), saver_.wrote());
  }

  [[noreturn]] void diverged(const std::string& failure) {
    // Keeps earlier checkpoints: if the last update made this state diverge, an earlier one is
    // needed.
    save(std::nullopt, Training::waits, Superseded::keep);
    const std::string kept = task_.step() > 0
                                 ? fmt::format("The state after step {} is saved", task_.step())
                                 : "No step was done";
    throw DivergedError(concat(directory_, ": step ", task_.step() + 1, " stopped: ", failure, ". ",
                               kept, "; begin another run with a lower ", plan_.settings.keys,
                               "lr, or look at the data"));
  }

  /// What follows the last step: its measurement, its line of the log and its checkpoint, if due.
  void complete(Json line) {
    const std::int64_t step = task_.step();
    const bool last = step == plan_.steps;
    const auto due = [&](std::int64_t every) { return every > 0 && step % every == 0; };
    std::optional<double> loss;
    unmeasured_ = line;  // while the measurement may be stopped
    if (due(plan_.measure_every) || (last && (plan_.measure_every > 0 || plan_.measure_last)))
      loss = measure(line);
    unmeasured_ = nullptr;
    append(std::move(line));
    const bool improved = loss && *loss < best_loss_;
    if (improved) best_loss_ = *loss;
    if (last || due(plan_.checkpoint_every) || (improved && plan_.checkpoints.keep_best))
      save(loss, last ? Training::waits : saver_.meanwhile());
  }

  /// Says what is wrong with the step's objective, and adds it to its line.
  void warn(Json& line) {
    for (const RunWarning& warning : watch_.see(watched_step(line))) {
      line["warnings"].push_back(
          {{"name", warning.name}, {"finding", warning.finding}, {"remedy", warning.remedy}});
      progress_.finish(
          fmt::format("warning: step {}: {}; {}", task_.step(), warning.finding, warning.remedy));
    }
  }

  std::optional<double> measure(Json& line) {
    const std::optional<Measured> found = task_.measure(line, measure_watch());
    if (!found) return std::nullopt;
    display_.measured(found->shown);
    return found->loss;
  }

  /// Measures before the first step, as step 0 of the log. No bit of training depends on it, and it
  /// makes no checkpoint the best.
  void measure_the_beginning() {
    Json line = {{"step", 0}};
    if (measure(line)) append(std::move(line));
  }

  /// Stops a measurement at a signal, and shows how far it is.
  MeasureWatch measure_watch() {
    return [this](const std::function<std::string()>& text) {
      if (interrupt_->signal() != 0) throw StoppedWhileMeasuring();
      if (progress_.due()) progress_.show(text());
    };
  }

  void append(Json line) {
    line["seconds"] = seconds();
    check_folder();
    log_->append(line);
    if (events_) write_metrics_event(*events_, line);
    if (control_.logged && !control_.logged(line)) unwanted_ = true;
  }

  void save(std::optional<double> loss, Training training,
            Superseded superseded = Superseded::remove) {
    check_folder();
    nlohmann::json entries = {{"step", task_.step()}};
    if (!unmeasured_.is_null()) entries["unvalidated_line"] = unmeasured_.dump();
    if (std::isfinite(best_loss_)) entries["best_loss"] = best_loss_;
    saver_.save(loss, entries, training, superseded);
  }

  void finish() {
    progress_.finish();
    save(std::nullopt, Training::waits);
    if (events_) events_->sync();
    events_.reset();
    log_.reset();
    // Measured after the last checkpoint: a run that is killed here only measures again.
    Json result = task_.result(read_metrics(files_, log_path()), store_, measure_watch());
    result["seconds"] = seconds();
    check_folder();
    write_file_atomically(files_, result_path(), json_text(result, 2) + "\n");
    if (const std::string summary = task_.summary(result); !summary.empty())
      progress_.finish(fmt::format("{}: {}, {}, {}", directory_, count_text(plan_.steps, "step"),
                                   summary, duration_text(seconds())));
  }

  RunTask& task_;
  const RunPlan plan_;
  std::string directory_;
  TrainControl control_;
  FileSystem& files_;
  CheckpointStore store_;
  ProgressLine progress_;
  StepDisplay display_;
  ObjectiveWatch watch_;
  Json unmeasured_;                            // the last step's line, if its measurement is due
  const InterruptGuard* interrupt_ = nullptr;  // while run() lasts
  std::optional<FileLock> lock_;
  std::optional<MetricsLog> log_;
  std::unique_ptr<TensorBoardWriter> events_;
  Stopwatch since_start_;
  std::int64_t longer_than_ = 0;  // steps that the directory's run was begun for, if fewer
  double earlier_seconds_ = 0, best_loss_ = INFINITY;
  bool unwanted_ = false;  // control_.logged said that the run is to stop
  RunSaver saver_;         // last: its thread uses the other members
};

}  // namespace

RunOutcome run_task(RunTask& task, const std::string& directory, const TrainControl& control) {
  return RunLoop(task, directory, control).run();
}

}  // namespace penstock
