// Runs a study: the order of its runs, and the runs that earlier calls finished.
#include "penstock/study/study_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/study/runs/run_folder.h"
#include "penstock/study/runs/run_plan.h"
#include "penstock/study/runs/run_reader.h"
#include "penstock/study/tables/closed_tables.h"
#include "penstock/train/run_control.h"

namespace penstock::study {
namespace {

namespace fs = std::filesystem;

/// A file in the folder of a run that diverged. It keeps later calls from training the run again.
constexpr const char* kDivergedFile = "diverged.json";

class Session {
 public:
  Session(const StudyConfig& study, const StudyOptions& options, const StudyHooks& hooks)
      : study_(study),
        options_(options),
        hooks_(hooks),
        plans_(study, options.output, hooks, rows_),
        comparison_(study.comparison) {
    if (!options.kept_rows.empty()) kept_ = read_kept_runs(options.kept_rows);
    if (const auto path = results_path(); options.report_only && fs::exists(path))
      reported_ = read_results(path).diverged;
    // Resolves all variants now, so that a mistake in the last one shows before hours of training.
    for (const auto& variant : study.variants) hooks.resolve(with_seed(variant, study.seeds[0]));
    if (study.trains() && !options.report_only)
      for (const auto& one : study.measurements) hooks.check(*one);
    create_directories(real_file_system(), options.output);
    tables_ = closed_tables(study, hooks.resolve);
    if (study.trains()) gather();
    Baseline& baseline = comparison_.baseline;
    if (!study.trains() || baseline.ngram == 0 || options.only) return;
    say(fmt::format("counting the {}-gram model that variants have to beat", baseline.ngram));
    const ConfigNode recipe = hooks.resolve(with_seed(study.variants.front(), study.seeds[0]));
    baseline.bits_per_byte = hooks.ngram_baseline(recipe, static_cast<int>(baseline.ngram));
  }

  /// Makes the missing measurements of the runs that earlier calls finished.
  void measure_finished() {
    for (const auto& variant : study_.variants)
      for (const std::int64_t seed : study_.seeds)
        if (rows_.contains({variant.name, seed})) measure(variant, seed, /*train=*/false);
  }

  /// Throws Error if there is nothing to report: an empty report would replace the existing one.
  void check_anything_to_report() const {
    PENSTOCK_CHECK(!rows_.empty() || !diverged_.empty(), options_.output,
                   ": holds no finished run of this study with these settings; report it with the "
                   "settings that its runs were trained with, which their config.toml names");
  }

  bool run_missing() {
    if (options_.only) return run_only(*options_.only);
    check_fits();
    if (hooks_.train_side_by_side && !run_side_by_side()) return false;
    for (const std::int64_t seed : study_.seeds) {
      for (const int turn : {0, 1, 2}) {
        for (const auto& variant : study_.variants) {
          if (turn_of(variant) != turn) continue;
          if (is_missing(variant, seed)) {
            if (!may_run(variant, seed)) continue;
            if (!run(variant, seed)) return false;
            publish();
          }
          if (!rows_.contains({variant.name, seed})) continue;  // it diverged
          if (!measure(variant, seed, /*train=*/true)) return false;
        }
      }
    }
    return true;
  }

  void publish() {
    const StudyResults current = results();
    const KeptRuns done{.rows = current.rows, .diverged = current.diverged};
    if (!options_.kept_rows.empty()) merge_kept_runs(options_.kept_rows, done);
    write_results(current, results_path());
    if (!current.empty() && hooks_.write_pages) hooks_.write_pages(current, options_.output);
  }

  StudyResults results() const {
    return {.name = study_.name,
            .title = study_.title,
            .claim = study_.claim,
            .scale = study_.scale,
            .command = options_.command,
            .planned_runs = planned_runs(),
            .comparison = comparison_,
            .rows = in_order(rows_),
            .diverged = in_order(diverged_),
            .tables = tables_};
  }

  int left_out() const { return left_out_; }

 private:
  std::string results_path() const { return (fs::path(options_.output) / "results.json").string(); }

  template <class T>
  std::vector<T> in_order(const std::map<RunKey, T>& runs) const {
    std::vector<T> out;
    for (const auto& variant : study_.variants)
      for (const std::int64_t seed : study_.seeds)
        if (const auto it = runs.find({variant.name, seed}); it != runs.end())
          out.push_back(it->second);
    return out;
  }

  bool is_missing(const Variant& variant, std::int64_t seed) const {
    return !rows_.contains({variant.name, seed}) && !diverged_.contains({variant.name, seed});
  }

  /// Whether this run can start. The run that it needs for its number of steps or its first weights
  /// may have diverged.
  bool may_run(const Variant& variant, std::int64_t seed) {
    for (const std::string& needed :
         {variant.match_compute, variant.from_model ? std::string() : variant.from})
      if (!needed.empty() && !rows_.contains({needed, seed})) {
        say(fmt::format("{}, seed {}: left out, the run of {} that it needs diverged",
                        variant.label, seed, needed));
        ++left_out_;
        return false;
      }
    return true;
  }

  /// Records that a run diverged. The other runs go on: a study may test which rates diverge.
  void note_diverged(const Variant& variant, std::int64_t seed, const std::string& hash,
                     const std::string& reason) {
    say(fmt::format("{}, seed {}: diverged: {}", variant.label, seed, reason));
    diverged_[{variant.name, seed}] = {.variant = variant.name,
                                       .label = variant.label,
                                       .seed = seed,
                                       .config_hash = hash,
                                       .reason = reason};
  }

  /// The turn of a variant: variants that need other variants have a later turn.
  static int turn_of(const Variant& variant) {
    return !variant.match_compute.empty() ? 2 : variant.from.empty() ? 0 : 1;
  }

  std::int64_t planned_runs() const {
    return study_.trains() ? std::ssize(study_.variants) * std::ssize(study_.seeds) : 0;
  }

  // Records every run that has ended. Runs that need other runs come after them.
  void gather() {
    for (const int turn : {0, 1, 2})
      for (const auto& variant : study_.variants)
        for (const std::int64_t seed : study_.seeds)
          if (turn_of(variant) == turn)
            if (const auto planned = plans_.plan(variant, seed))
              take_ended(variant, seed, *planned);
  }

  /// Records a run that finished or diverged. Returns false for other runs.
  /// @param retried  whether the run was just trained; retry_diverged then has no effect
  bool take_ended(const Variant& variant, std::int64_t seed, const PlannedRun& planned,
                  bool retried = false) {
    if (take_finished(variant, seed, planned)) return true;
    if (options_.retry_diverged && !retried) return false;
    const auto reason = divergence(variant, seed, planned);
    if (reason) note_diverged(variant, seed, planned.hash, *reason);
    return reason.has_value();
  }

  /// Why the run diverged; no value if it did not.
  std::optional<std::string> divergence(const Variant& variant, std::int64_t seed,
                                        const PlannedRun& planned) const {
    if (const auto kept = read_kept_object(planned.directory, kDivergedFile))
      return field_of<std::string>(*kept, "reason", planned.directory + "/" + kDivergedFile);
    // If the run's folder exists, kept rows are ignored, because the run may have been started
    // again. An earlier version recorded the divergence only in results.json. A report must not
    // lose it.
    for (const DivergedRun& run : fs::exists(planned.directory) ? reported_ : kept_.diverged)
      if (run.variant == variant.name && run.seed == seed &&
          (run.config_hash.empty() || run.config_hash == planned.hash))
        return run.reason;
    return std::nullopt;
  }

  bool take_finished(const Variant& variant, std::int64_t seed, const PlannedRun& planned) {
    try {
      if (is_finished(planned.directory)) {
        take(variant, seed, planned, read_run(planned.directory));
        return true;
      }
    } catch (const DamagedResult&) {
      if (!study_.trains() || options_.report_only) throw;
      say(concat(planned.directory,
                 "/finished.json was damaged; it is put aside as finished.json.damaged"));
      put_result_aside(planned.directory);
    }
    // The folder of a run has its measurements. A kept row has its own.
    const auto kept = std::ranges::find_if(kept_.rows, [&](const RunRow& row) {
      return row.variant == variant.name && row.seed == seed && row.config_hash == planned.hash;
    });
    if (kept == kept_.rows.end()) return false;
    take(variant, seed, planned, *kept);
    return true;
  }

  void take(const Variant& variant, std::int64_t seed, const PlannedRun& planned, RunRow row) {
    row.variant = variant.name;
    row.label = variant.label;
    row.seed = seed;
    row.config_hash = planned.hash;
    rows_[{variant.name, seed}] = std::move(row);
  }

  /// Makes the study's measurements that the row lacks. Measurements with a training of their own
  /// are made only if `train`. Returns false if interrupted.
  bool measure(const Variant& variant, std::int64_t seed, bool train) {
    const auto planned = plans_.plan(variant, seed);
    PENSTOCK_ASSERT(planned, "a finished run has a plan");
    const FinishedRun run{.variant = variant.name,
                          .seed = seed,
                          .recipe = planned->recipe,
                          .model = hooks_.model(planned->recipe),
                          .directory = planned->directory,
                          .checkpoint = study_.eval_checkpoint};
    RunRow& row = rows_.at({variant.name, seed});
    bool changed = false;
    for (const auto& one : study_.measurements) changed |= one->prune(run, row);
    for (const bool trains : {false, true}) {
      for (const auto& one : study_.measurements)
        for (const Work& work : one->missing(run, row)) {
          if (work.trains != trains || (trains && !train) || !may_measure(run, work, row)) continue;
          const auto result = hooks_.measure(*one, run, work);
          if (!result) return false;
          one->keep(run, work, *result, row);
          write_page_of(work);
          changed = true;
        }
      if (std::exchange(changed, false)) publish();
    }
    return true;
  }

  /// Whether the run's folder is there for the work. Reports the work, or that it is left out.
  bool may_measure(const FinishedRun& run, const Work& work, const RunRow& row) const {
    if (work.what.empty()) return true;  // the result exists and is only read
    const bool there = is_finished(run.directory);
    say(fmt::format("{}, seed {}: {}{}", row.label, row.seed, work.what,
                    there ? "" : ": left out, its run is not in " + plans_.folder().string()));
    return there;
  }

  /// Writes the page of a measurement's own training, after the training or if the page is missing:
  /// an earlier version wrote none.
  void write_page_of(const Work& work) const {
    if (!work.directory.empty() && hooks_.write_run_page &&
        (work.trains || !fs::exists(fs::path(work.directory) / "report.html")))
      hooks_.write_run_page(work.directory);
  }

  /// Throws Error if a variant does not fit into memory, before hours of training other variants.
  /// A variant that begins with a model is checked when that model is there.
  void check_fits() const {
    if (!hooks_.check_fits) return;
    for (const auto& variant : study_.variants) {
      const bool missing = !std::ranges::all_of(
          study_.seeds, [&](std::int64_t seed) { return !is_missing(variant, seed); });
      if (!missing || !variant.from.empty()) continue;
      try {
        hooks_.check_fits(with_seed(variant, study_.seeds[0]));
      } catch (const Error& error) {
        fail("variant ", variant.name, ": ", error.what());
      }
    }
  }

  void say(const std::string& line) const { print_line(options_.progress, line); }

  bool run_only(const RunKey& key) {
    const auto variant = std::ranges::find(study_.variants, key.first, &Variant::name);
    PENSTOCK_CHECK(variant != study_.variants.end(), "no variant of this study is called ",
                   key.first);
    PENSTOCK_CHECK(std::ranges::count(study_.seeds, key.second) > 0, "this study has no seed ",
                   key.second);
    return !is_missing(*variant, key.second) || !may_run(*variant, key.second) ||
           (hooks_.train_side_by_side ? hooks_.train_side_by_side({to_train(*variant, key.second)})
                                      : run(*variant, key.second));
  }

  RunToTrain to_train(const Variant& variant, std::int64_t seed) const {
    return {.key = {variant.name, seed},
            .processes = hooks_.processes ? hooks_.processes(with_seed(variant, seed)) : 1};
  }

  /// Trains the missing runs that can start, turn by turn. Returns false if interrupted.
  bool run_side_by_side() {
    for (const int turn : {0, 1, 2}) {
      std::map<RunKey, const Variant*> runs;
      for (const std::int64_t seed : study_.seeds)
        for (const auto& variant : study_.variants)
          if (turn_of(variant) == turn && is_missing(variant, seed) && may_run(variant, seed))
            runs[{variant.name, seed}] = &variant;
      if (runs.empty()) continue;
      std::vector<RunToTrain> asked;
      for (const auto& [key, variant] : runs) asked.push_back(to_train(*variant, key.second));
      const bool complete = hooks_.train_side_by_side(asked);
      for (const auto& [key, variant] : runs)
        if (const auto planned = plans_.plan(*variant, key.second))
          take_ended(*variant, key.second, *planned, /*retried=*/true);
      publish();
      if (!complete) return false;
    }
    left_out_ = 0;  // run_missing() counts again
    return true;
  }

  /// Trains the run, which may diverge. Returns false if interrupted.
  bool run(const Variant& variant, std::int64_t seed) {
    auto planned = plans_.plan(variant, seed);
    PENSTOCK_ASSERT(planned, "the matched variant's run is made first");
    if (take_ended(variant, seed, *planned)) return true;
    if (!variant.from.empty() && !fs::exists(planned->start())) {
      say(fmt::format("{}, seed {}: {} {}", variant.label, seed,
                      variant.upcycle.empty() ? "beginning with" : "upcycling", variant.from));
      plans_.begin(variant, seed, *planned);
      planned = plans_.plan(variant, seed);
    }
    say(fmt::format("[{}/{}] {}, seed {}{}", rows_.size() + diverged_.size() + 1,
                    study_.variants.size() * study_.seeds.size(), variant.label, seed,
                    fs::exists(planned->directory) ? " (resuming)" : ""));
    fs::remove(fs::path(planned->directory) / kDivergedFile);
    try {
      if (!hooks_.train(planned->recipe, planned->directory)) return false;
    } catch (const DivergedError& error) {
      write_kept_object({{"reason", error.what()}}, planned->directory, kDivergedFile);
      note_diverged(variant, seed, planned->hash, error.what());
      return true;
    }
    PENSTOCK_CHECK(take_finished(variant, seed, *planned), planned->directory,
                   ": the training ended without finished.json; look at metrics.jsonl there");
    return true;
  }

  const StudyConfig& study_;
  const StudyOptions& options_;
  const StudyHooks& hooks_;
  std::map<RunKey, RunRow> rows_;
  RunPlans plans_;
  Comparison comparison_;
  KeptRuns kept_;
  std::vector<DivergedRun> reported_;  // with report_only: in the existing results.json
  std::map<RunKey, DivergedRun> diverged_;
  int left_out_ = 0;
  std::vector<Table> tables_;
};

}  // namespace

std::string default_output(const StudyConfig& study) {
  return "studies/" + (study.scale.empty() ? study.name : study.name + "-" + study.scale);
}

StudyOutcome run_study(const StudyConfig& study, const StudyOptions& options,
                       const StudyHooks& hooks) {
  Session session(study, options, hooks);
  if (options.report_only && study.trains()) session.check_anything_to_report();
  if (!options.only) session.measure_finished();
  const bool complete = options.report_only || !study.trains() || session.run_missing();
  if (!options.only) session.publish();
  return {.results = session.results(), .left_out = session.left_out(), .interrupted = !complete};
}

}  // namespace penstock::study
