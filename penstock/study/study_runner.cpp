// Runs a study: the order of its runs and of their measurements.
#include "penstock/study/study_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/study/runs/ended_runs.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/study/runs/run_plan.h"
#include "penstock/study/runs/run_reader.h"
#include "penstock/study/tables/closed_tables.h"
#include "penstock/train/output_folder.h"
#include "penstock/train/run_control.h"

namespace penstock::study {
namespace {

namespace fs = std::filesystem;

class Session {
 public:
  Session(const StudyConfig& study, const StudyOptions& options, const StudyHooks& hooks)
      : study_(study),
        options_(options),
        hooks_(hooks),
        ended_({.kept_rows = options.kept_rows,
                .reported = options.report_only ? results_path() : "",
                .retry_diverged = options.retry_diverged,
                .repairs = study.trains() && !options.report_only,
                .progress = options.progress}),
        plans_(study, options.output, hooks, ended_.rows()),
        in_turn_(in_turn(study)),
        comparison_(study.comparison) {
    if (options.only) check_planned(*options.only);
    // Resolves all variants now, so that a mistake in the last one shows before hours of training.
    for (const auto& variant : study.variants) hooks.resolve(with_seed(variant, study.seeds[0]));
    if (study.trains() && !options.report_only)
      for (const auto& one : study.measurements) hooks.check(*one);
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
        if (ended_.is_finished({variant.name, seed})) measure(variant, seed, /*train=*/false);
  }

  /// Throws Error if there is nothing to report: an empty report would replace the existing one.
  void check_anything_to_report() const {
    PENSTOCK_CHECK(ended_.count() > 0, options_.output,
                   ": holds no finished run of this study with these settings; report it with the "
                   "settings that its runs were trained with, which their config.toml names");
  }

  bool run_missing() {
    if (options_.only) return run_only(*options_.only);
    check_fits();
    if (hooks_.train_side_by_side && !run_side_by_side()) return false;
    for (const std::int64_t seed : study_.seeds)
      for (const Variant* const variant : in_turn_) {
        if (is_missing(*variant, seed)) {
          if (!may_run(*variant, seed)) continue;
          if (!run(*variant, seed)) return false;
          publish();
        }
        if (!ended_.is_finished({variant->name, seed})) continue;  // it diverged
        if (!measure(*variant, seed, /*train=*/true)) return false;
      }
    return true;
  }

  void publish() {
    create_directories(real_file_system(), options_.output);
    const StudyResults current = results();
    const KeptRuns done{.rows = current.rows, .diverged = current.diverged};
    if (!options_.kept_rows.empty()) merge_kept_runs(options_.kept_rows, done);
    write_results(current, results_path());
    if (!current.empty() && hooks_.write_pages) hooks_.write_pages(current, options_.output);
  }

  StudyResults results() const {
    KeptRuns ended = ended_.in_order(study_);
    return {.name = study_.name,
            .title = study_.title,
            .claim = study_.claim,
            .scale = study_.scale,
            .command = options_.command,
            .planned_runs = planned_runs(),
            .comparison = comparison_,
            .rows = std::move(ended.rows),
            .diverged = std::move(ended.diverged),
            .tables = tables_};
  }

  int left_out() const { return left_out_; }

 private:
  std::string results_path() const { return (fs::path(options_.output) / "results.json").string(); }

  bool is_missing(const Variant& variant, std::int64_t seed) const {
    return ended_.is_missing({variant.name, seed});
  }

  /// The variants whose runs of the same seed a variant's run needs, for its number of steps or its
  /// first weights.
  static std::vector<std::string> needed_variants(const Variant& variant) {
    std::vector<std::string> out;
    if (!variant.match_compute.empty()) out.push_back(variant.match_compute);
    if (!variant.from.empty() && !variant.from_model) out.push_back(variant.from);
    return out;
  }

  /// Whether this run can start. A run that it needs may have diverged.
  bool may_run(const Variant& variant, std::int64_t seed) {
    for (const std::string& needed : needed_variants(variant))
      if (!ended_.is_finished({needed, seed})) {
        say(fmt::format("{}, seed {}: left out, the run of {} that it needs diverged",
                        variant.label, seed, needed));
        ++left_out_;
        return false;
      }
    return true;
  }

  /// The variants. Those that need other variants come later.
  static std::vector<const Variant*> in_turn(const StudyConfig& study) {
    std::vector<const Variant*> out;
    for (const Variant& variant : study.variants) out.push_back(&variant);
    std::ranges::stable_sort(out, {}, [](const Variant* variant) {
      return !variant->match_compute.empty() ? 2 : variant->from.empty() ? 0 : 1;
    });
    return out;
  }

  std::int64_t planned_runs() const {
    return study_.trains() ? std::ssize(study_.variants) * std::ssize(study_.seeds) : 0;
  }

  /// Records every run that has ended.
  void gather() {
    for (const Variant* const variant : in_turn_)
      for (const std::int64_t seed : study_.seeds)
        if (const auto planned = plans_.plan(*variant, seed)) ended_.take(*variant, seed, *planned);
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
    RunRow& row = ended_.row({variant.name, seed});
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
      const bool missing = std::ranges::any_of(
          study_.seeds, [&](std::int64_t seed) { return is_missing(variant, seed); });
      if (!missing || !variant.from.empty()) continue;
      try {
        hooks_.check_fits(with_seed(variant, study_.seeds[0]));
      } catch (const Error& error) {
        fail("variant ", variant.name, ": ", error.what());
      }
    }
  }

  void say(const std::string& line) const { print_line(options_.progress, line); }

  /// Throws Error unless the study has that variant and that seed.
  void check_planned(const RunKey& key) const {
    PENSTOCK_CHECK(std::ranges::count(study_.variants, key.first, &Variant::name) > 0,
                   "options.only: no variant of this study is called ", key.first,
                   "; name one of its [variants.NAME]");
    PENSTOCK_CHECK(std::ranges::count(study_.seeds, key.second) > 0,
                   "options.only: this study has no seed ", key.second, "; name one of its seeds");
  }

  /// Throws Error if a run that this one needs has not ended.
  bool run_only(const RunKey& key) {
    const Variant& variant = variant_of(key);
    if (!is_missing(variant, key.second)) return true;
    for (const std::string& needed : needed_variants(variant))
      PENSTOCK_CHECK(!ended_.is_missing({needed, key.second}), "options.only: ", key.first,
                     ", seed ", key.second, ": needs the run of ", needed,
                     " with this seed, which is not finished; train that run first");
    if (!may_run(variant, key.second)) return true;
    return hooks_.train_side_by_side ? train_side_by_side({to_train(variant, key.second)})
                                     : run(variant, key.second);
  }

  const Variant& variant_of(const RunKey& key) const {
    return *std::ranges::find(study_.variants, key.first, &Variant::name);
  }

  RunToTrain to_train(const Variant& variant, std::int64_t seed) const {
    RunToTrain out{.key = {variant.name, seed},
                   .processes = hooks_.processes ? hooks_.processes(with_seed(variant, seed)) : 1};
    for (const std::string& needed : needed_variants(variant)) out.after.push_back({needed, seed});
    return out;
  }

  bool train_side_by_side(const std::vector<RunToTrain>& runs) {
    return hooks_.train_side_by_side(
        runs, {.may_begin = [&](const RunKey& run) { return may_run(variant_of(run), run.second); },
               .ended = [&](std::span<const RunKey> ended) { take_trained(ended); }});
  }

  /// Takes the results of runs that others trained. Runs without a result are ignored.
  void take_trained(std::span<const RunKey> runs) {
    for (const RunKey& run : runs) {
      const Variant& variant = variant_of(run);
      if (const auto planned = plans_.plan(variant, run.second))
        ended_.take(variant, run.second, *planned, /*retried=*/true);
    }
    if (!options_.only) publish();
  }

  /// Trains the missing runs, each after those that it needs. Returns false if interrupted.
  bool run_side_by_side() {
    std::vector<RunToTrain> runs;
    for (const std::int64_t seed : study_.seeds)
      for (const Variant* const variant : in_turn_)
        if (is_missing(*variant, seed)) runs.push_back(to_train(*variant, seed));
    if (!runs.empty() && !train_side_by_side(runs)) return false;
    left_out_ = 0;  // run_missing() counts again
    return true;
  }

  /// Trains the run, which may diverge. Returns false if interrupted.
  bool run(const Variant& variant, std::int64_t seed) {
    auto planned = plans_.plan(variant, seed);
    PENSTOCK_ASSERT(planned, "the matched variant's run is made first");
    if (ended_.take(variant, seed, *planned)) return true;
    if (!variant.from.empty() && !fs::exists(planned->start())) {
      say(fmt::format("{}, seed {}: {} {}", variant.label, seed,
                      variant.upcycle.empty() ? "beginning with" : "upcycling", variant.from));
      plans_.begin(variant, seed, *planned);
      planned = plans_.plan(variant, seed);
    }
    // The folder of a run that begins with a model has this model before the first step.
    const bool begun = fs::exists(fs::path(planned->directory) / "config.toml");
    say(fmt::format("[{}/{}] {}, seed {}{}", ended_.count() + 1,
                    study_.variants.size() * study_.seeds.size(), variant.label, seed,
                    begun ? " (resuming)" : ""));
    EndedRuns::forget_divergence(*planned);
    try {
      if (!hooks_.train(planned->recipe, planned->directory)) return false;
    } catch (const DivergedError& error) {
      ended_.diverged(variant, seed, *planned, error.what());
      return true;
    }
    PENSTOCK_CHECK(ended_.take_finished(variant, seed, *planned), planned->directory,
                   ": the training ended without finished.json; look at metrics.jsonl there");
    return true;
  }

  const StudyConfig& study_;
  const StudyOptions& options_;
  const StudyHooks& hooks_;
  EndedRuns ended_;
  RunPlans plans_;
  std::vector<const Variant*> in_turn_;
  Comparison comparison_;
  int left_out_ = 0;
  std::vector<Table> tables_;
};

}  // namespace

std::string default_output(const StudyConfig& study) {
  return "studies/" + (study.scale.empty() ? study.name : study.name + "-" + study.scale);
}

StudyOutcome run_study(const StudyConfig& study, const StudyOptions& options,
                       const StudyHooks& hooks) {
  check_output_folder(real_file_system(), options.output, kStudyFolder);
  Session session(study, options, hooks);
  if (options.report_only && study.trains()) session.check_anything_to_report();
  if (!options.only) session.measure_finished();
  const bool complete = options.report_only || !study.trains() || session.run_missing();
  if (!options.only) session.publish();
  return {.results = session.results(), .left_out = session.left_out(), .interrupted = !complete};
}

}  // namespace penstock::study
