// The order of a study's runs and what is already there.
#include "penstock/study/study_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/study/closed_tables.h"
#include "penstock/study/config_hash.h"
#include "penstock/study/divergence.h"
#include "penstock/study/report.h"
#include "penstock/study/run_reader.h"
#include "penstock/train/run_control.h"

namespace penstock::study {
namespace {

namespace fs = std::filesystem;

class Session {
 public:
  Session(const StudyConfig& study, const StudyOptions& options, const StudyHooks& hooks)
      : study_(study), options_(options), hooks_(hooks), comparison_(study.comparison) {
    if (!options.kept_rows.empty()) kept_ = read_kept_runs(options.kept_rows);
    // A mistake in the last variant should not show after hours of training the first.
    for (const auto& variant : study.variants) hooks.resolve(with_seed(variant, study.seeds[0]));
    if (study.trains() && !options.report_only)
      for (const FinetuneTask& task : study.finetunes)
        if (!task.data.empty()) hooks.check_data(task);
    create_directories(real_file_system(), options.output);
    tables_ = closed_tables(study, hooks.resolve);
    if (study.trains()) gather();
    Baseline& baseline = comparison_.baseline;
    if (!study.trains() || baseline.ngram == 0) return;
    say(fmt::format("counting the {}-gram model that variants have to beat", baseline.ngram));
    const ConfigNode recipe = hooks.resolve(with_seed(study.variants.front(), study.seeds[0]));
    baseline.bits_per_byte = hooks.ngram_baseline(recipe, static_cast<int>(baseline.ngram));
  }

  /// What earlier sittings finished, where their rows lack a measurement.
  void measure_finished() {
    for (const auto& variant : study_.variants)
      for (const std::int64_t seed : study_.seeds)
        if (rows_.contains({variant.name, seed})) {
          if (measure(variant, seed)) publish();
          finetune(variant, seed, /*train=*/false);
        }
  }

  /// Refuses a report of nothing, which would take the place of the one that is there.
  void check_anything_to_report() const {
    PENSTOCK_CHECK(!rows_.empty() || !diverged_.empty(), options_.output,
                   ": holds no finished run of this study with these settings; report it with the "
                   "settings that its runs were trained with, which their config.toml names");
  }

  bool run_missing() {
    check_memory();
    for (const std::int64_t seed : study_.seeds) {
      for (const int turn : {0, 1, 2}) {
        for (const auto& variant : study_.variants) {
          if (turn_of(variant) != turn) continue;
          if (is_missing(variant, seed)) {
            if (!may_run(variant, seed)) continue;
            if (!run(variant, seed)) return false;
            publish();
            if (rows_.contains({variant.name, seed}) && measure(variant, seed)) publish();
          }
          if (!rows_.contains({variant.name, seed})) continue;  // it diverged
          if (!finetune(variant, seed, /*train=*/true)) return false;
        }
      }
    }
    return true;
  }

  void publish() {
    KeptRuns done{.diverged = diverged()};
    for (const auto& [key, row] : rows_) done.rows.push_back(row);
    if (!options_.kept_rows.empty()) merge_kept_runs(options_.kept_rows, done);
    const StudyResults current = results();
    write_results(current, (fs::path(options_.output) / "results.json").string());
    if (current.rows.empty() && current.tables.empty()) return;
    const auto write = [&](const char* name, const std::string& text) {
      write_file_atomically(real_file_system(), fs::path(options_.output) / name, text);
    };
    write("results.txt", results_table(current));
    write("report.html", report_page(current));
  }

  StudyResults results() const {
    StudyResults out{.name = study_.name,
                     .title = study_.title,
                     .claim = study_.claim,
                     .scale = study_.scale,
                     .command = options_.command,
                     .planned_runs = planned_runs(),
                     .comparison = comparison_,
                     .diverged = diverged(),
                     .tables = tables_};
    for (const auto& variant : study_.variants)
      for (const std::int64_t seed : study_.seeds)
        if (const auto it = rows_.find({variant.name, seed}); it != rows_.end())
          out.rows.push_back(it->second);
    return out;
  }

  int left_out() const { return left_out_; }

 private:
  using Key = std::pair<std::string, std::int64_t>;

  /// In the study's order.
  std::vector<DivergedRun> diverged() const {
    std::vector<DivergedRun> out;
    for (const auto& variant : study_.variants)
      for (const std::int64_t seed : study_.seeds)
        if (const auto it = diverged_.find({variant.name, seed}); it != diverged_.end())
          out.push_back(it->second);
    return out;
  }

  bool is_missing(const Variant& variant, std::int64_t seed) const {
    return !rows_.contains({variant.name, seed}) && !diverged_.contains({variant.name, seed});
  }

  /// Whether the run that this one needs, for its steps or its first weights, is there; it may have
  /// diverged.
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

  /// The other runs go on: a study may be there to find out which rates hold.
  void note_diverged(const Variant& variant, std::int64_t seed, const std::string& hash,
                     const std::string& reason) {
    say(fmt::format("{}, seed {}: diverged: {}", variant.label, seed, reason));
    diverged_[{variant.name, seed}] = {.variant = variant.name,
                                       .label = variant.label,
                                       .seed = seed,
                                       .config_hash = hash,
                                       .reason = reason};
  }

  struct Planned {
    ConfigNode recipe;  // resolved
    std::string hash, directory;
  };

  /// Variants that need others come after them.
  static int turn_of(const Variant& variant) {
    return !variant.match_compute.empty() ? 2 : variant.from.empty() ? 0 : 1;
  }

  static ConfigNode with_seed(const Variant& variant, std::int64_t seed) {
    ConfigNode recipe = variant.recipe;
    if (!variant.from.empty()) {
      // The model that it begins with says this.
      ConfigNode::Table tables = recipe.table();
      tables.erase("model");
      recipe = ConfigNode(ConfigNode::Value(std::move(tables)));
    }
    recipe.set("train.seed", ConfigNode(seed, "seeds"));
    return recipe;
  }

  /// What a variant's training begins with: where the model lies and what stands for it in hashes.
  struct Beginning {
    std::string model, identity;
  };

  Beginning beginning(const Variant& variant, std::int64_t seed) const {
    Beginning out;
    if (variant.from_model) {
      out = {.model = variant.from, .identity = hooks_.model_hash(variant.from)};
    } else {
      const auto parent = std::ranges::find(study_.variants, variant.from, &Variant::name);
      const Planned planned = *plan(*parent, seed);  // it needs no other
      out = {.model = planned.directory, .identity = planned.hash};
    }
    for (const ConfigNode* node : {&variant.upcycle, &variant.retuned})
      if (!node->empty()) out.identity += "\n" + to_toml(*node);
    return out;
  }

  /// Where a planned run keeps the model that it begins with.
  static std::string start_of(const Planned& planned) {
    return (fs::path(planned.directory) / "start").string();
  }

  // Nothing while the run whose compute it matches is missing. The model of a variant that begins
  // with another's is known once that is there; until then the recipe has none.
  std::optional<Planned> plan(const Variant& variant, std::int64_t seed) const {
    ConfigNode recipe = hooks_.resolve(with_seed(variant, seed));
    if (!variant.match_compute.empty()) {
      const auto target = rows_.find({variant.match_compute, seed});
      if (target == rows_.end()) return std::nullopt;
      recipe.set("train.steps", ConfigNode(matched_steps(target->second.total_flops,
                                                         hooks_.flops_per_step(recipe)),
                                           "match_compute"));
      recipe = hooks_.resolve(recipe);
    }
    Planned planned{.recipe = std::move(recipe)};
    planned.hash = config_hash(planned.recipe, hooks_.corpus_hash(planned.recipe));
    if (!variant.from.empty())
      planned.hash =
          fmt::format("{:016x}", fnv1a(planned.hash + "\n" + beginning(variant, seed).identity));
    // The hash in the name keeps runs of an edited recipe apart from those of the earlier one.
    planned.directory =
        (runs_folder() / fmt::format("{}-seed-{}-{}", variant.name, seed, planned.hash)).string();
    if (!variant.from.empty() && fs::exists(start_of(planned))) {
      ConfigNode begun = with_seed(variant, seed);
      begun.set("train.init_from", ConfigNode(start_of(planned)));
      if (!variant.retuned.empty()) begun.set("model", variant.retuned);
      planned.recipe = hooks_.resolve(begun);
    }
    return planned;
  }

  int planned_runs() const {
    return study_.trains() ? static_cast<int>(study_.variants.size() * study_.seeds.size()) : 0;
  }

  /// runs/ of the output folder, or of the study beside it that has these runs.
  fs::path runs_folder() const {
    const fs::path output = fs::absolute(options_.output).lexically_normal();
    if (study_.runs_of.empty()) return fs::path(options_.output) / "runs";
    const fs::path beside =
        output.has_filename() ? output.parent_path() : output.parent_path().parent_path();
    return beside / (study_.runs_of + (study_.scale.empty() ? "" : "-" + study_.scale)) / "runs";
  }

  // Takes up every finished run, those that need others after them.
  void gather() {
    for (const int turn : {0, 1, 2})
      for (const auto& variant : study_.variants)
        for (const std::int64_t seed : study_.seeds)
          if (turn_of(variant) == turn)
            if (const auto planned = plan(variant, seed)) take_ended(variant, seed, *planned);
  }

  /// Takes up a run that finished or diverged; false where it is neither.
  bool take_ended(const Variant& variant, std::int64_t seed, const Planned& planned) {
    if (take_finished(variant, seed, planned)) return true;
    if (options_.retry_diverged) return false;
    std::optional<std::string> reason = read_divergence(planned.directory);
    // The run's own folder, where it is there, knows better: it may have been begun again.
    if (!fs::exists(planned.directory))
      for (const DivergedRun& run : kept_.diverged)
        if (run.variant == variant.name && run.seed == seed && run.config_hash == planned.hash)
          reason = run.reason;
    if (reason) note_diverged(variant, seed, planned.hash, *reason);
    return reason.has_value();
  }

  bool take_finished(const Variant& variant, std::int64_t seed, const Planned& planned) {
    if (is_finished(planned.directory)) {
      take(variant, seed, planned, read_run(planned.directory));
      return true;
    }
    // Measurements by k are with the run; a kept row brings its own.
    const auto kept = std::ranges::find_if(kept_.rows, [&](const RunRow& row) {
      return row.variant == variant.name && row.seed == seed && row.config_hash == planned.hash;
    });
    if (kept == kept_.rows.end()) return false;
    take(variant, seed, planned, *kept);
    return true;
  }

  void take(const Variant& variant, std::int64_t seed, const Planned& planned, RunRow row) {
    row.variant = variant.name;
    row.label = variant.label;
    row.seed = seed;
    row.config_hash = planned.hash;
    rows_[{variant.name, seed}] = std::move(row);
  }

  /// Measures what the row lacks: by k, also with folded routers, and the routers; false where
  /// nothing was to do, or nothing can be done because the row was kept and its run's folder is
  /// elsewhere.
  bool measure(const Variant& variant, std::int64_t seed) {
    const auto planned = plan(variant, seed);
    PENSTOCK_ASSERT(planned, "a finished run has a plan");
    RunRow& row = rows_.at({variant.name, seed});
    const auto ks = study_.eval_k.empty() ? std::vector<std::int64_t>()
                                          : hooks_.wanted_k(planned->recipe, study_.eval_k);
    bool changed = measure_k(*planned, row, row.by_k, ks, false);
    if (variant.fold && hooks_.folds(planned->recipe))
      changed |= measure_k(*planned, row, row.by_k_folded, ks, true);
    if ((study_.reports("entropy") || study_.reports("samples")) &&
        (!row.routers || row.routers->checkpoint != study_.eval_checkpoint) &&
        is_there(*planned, row, "routers")) {
      row.routers =
          hooks_.measure_routers(planned->recipe, planned->directory, study_.eval_checkpoint);
      write_router_report(*row.routers, planned->directory);
      changed = true;
    }
    return changed;
  }

  bool measure_k(const Planned& planned, const RunRow& row, std::optional<MeasuredK>& have,
                 const std::vector<std::int64_t>& wanted, bool folded) {
    const auto missing = missing_k(have, wanted, study_.eval_checkpoint);
    if (missing.empty() || !is_there(planned, row, folded ? "by k, folded" : "by k")) return false;
    have = joined(have, hooks_.measure_k(planned.recipe, planned.directory, missing,
                                         study_.eval_checkpoint, folded));
    write_measured_k(*have, planned.directory, folded);
    return true;
  }

  /// Says what is being measured, or that the run is not there for it.
  bool is_there(const Planned& planned, const RunRow& row, const std::string& what) const {
    const bool there = is_finished(planned.directory);
    say(there ? fmt::format("{}, seed {}: measuring the {} checkpoint {}", row.label, row.seed,
                            study_.eval_checkpoint, what)
              : fmt::format("{}, seed {}: not measured {}, its run is not in {}", row.label,
                            row.seed, what, runs_folder().string()));
    return there;
  }

  /// Takes up the study's fine-tunings that the row lacks, and makes those that are not there;
  /// false when interrupted.
  bool finetune(const Variant& variant, std::int64_t seed, bool train) {
    RunRow& row = rows_.at({variant.name, seed});
    std::vector<Finetuned> done;
    for (const FinetuneTask& task : study_.finetunes) {
      if (task.data.empty()) continue;  // left out
      const std::string hash = task_hash(task, seed, study_.eval_checkpoint);
      const auto kept = std::ranges::find_if(row.finetuned, [&](const Finetuned& one) {
        return one.task == task.name && one.hash == hash;
      });
      if (kept != row.finetuned.end()) {
        done.push_back(*kept);
        continue;
      }
      const auto planned = plan(variant, seed);
      const std::string directory =
          (fs::path(planned->directory) / "finetune" / (task.name + "-" + hash)).string();
      if (!read_finetuned(directory)) {
        if (!train) continue;
        if (!is_finished(planned->directory)) {
          say(fmt::format("{}, seed {}: not fine-tuned on {}, its run is not in {}", variant.label,
                          seed, task.name, runs_folder().string()));
          continue;
        }
        say(fmt::format("{}, seed {}: fine-tuning on {}", variant.label, seed, task.name));
        if (!hooks_.finetune(planned->recipe, planned->directory, study_.eval_checkpoint, task,
                             seed, directory))
          return false;
      }
      Finetuned result = *read_finetuned(directory);
      result.task = task.name;
      result.hash = hash;
      done.push_back(std::move(result));
    }
    const bool changed =
        done.size() != row.finetuned.size() ||
        !std::ranges::equal(done, row.finetuned, {}, &Finetuned::hash, &Finetuned::hash);
    row.finetuned = std::move(done);
    if (changed) publish();
    return true;
  }

  /// What memory is too small for should not show after hours of training the variants before it.
  /// A variant that begins with another's model is as large as that will be, and told of then.
  void check_memory() const {
    if (!hooks_.check_memory) return;
    for (const auto& variant : study_.variants) {
      const bool missing = !std::ranges::all_of(
          study_.seeds, [&](std::int64_t seed) { return !is_missing(variant, seed); });
      if (!missing || !variant.from.empty()) continue;
      try {
        hooks_.check_memory(with_seed(variant, study_.seeds[0]));
      } catch (const Error& error) {
        fail("variant ", variant.name, ": ", error.what());
      }
    }
  }

  /// Makes the model that the run begins with, complete or not at all.
  void begin(const Variant& variant, std::int64_t seed, const Planned& planned) const {
    const std::string start = start_of(planned), aside = start + ".partial";
    say(fmt::format("{}, seed {}: {} {}", variant.label, seed,
                    variant.upcycle.empty() ? "beginning with" : "upcycling", variant.from));
    fs::remove_all(aside);
    create_directories(real_file_system(), planned.directory);
    hooks_.begin(beginning(variant, seed).model, variant.upcycle, planned.recipe, aside);
    fs::rename(aside, start);
  }

  void say(const std::string& line) const {
    if (!options_.progress) return;
    fmt::print(options_.progress, "{}\n", line);
    std::fflush(options_.progress);
  }

  /// Trains the run; it may diverge. False when interrupted.
  bool run(const Variant& variant, std::int64_t seed) {
    auto planned = plan(variant, seed);
    PENSTOCK_ASSERT(planned, "the matched variant's run is made first");
    if (take_ended(variant, seed, *planned)) return true;
    if (!variant.from.empty() && !fs::exists(start_of(*planned))) {
      begin(variant, seed, *planned);
      planned = plan(variant, seed);
    }
    say(fmt::format("[{}/{}] {}, seed {}{}", rows_.size() + diverged_.size() + 1,
                    study_.variants.size() * study_.seeds.size(), variant.label, seed,
                    fs::exists(planned->directory) ? " (resuming)" : ""));
    forget_divergence(planned->directory);
    try {
      if (!hooks_.train(planned->recipe, planned->directory)) return false;
    } catch (const DivergedError& error) {
      write_divergence(planned->directory, error.what());
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
  Comparison comparison_;
  KeptRuns kept_;
  std::map<Key, RunRow> rows_;
  std::map<Key, DivergedRun> diverged_;
  int left_out_ = 0;
  std::vector<ShownTable> tables_;
};

}  // namespace

std::int64_t matched_steps(double target_flops, double flops_per_step) {
  PENSTOCK_CHECK(target_flops > 0,
                 "match_compute: the named variant's metrics.jsonl states no FLOPs");
  PENSTOCK_ASSERT(flops_per_step > 0);
  return std::max<std::int64_t>(1, std::llround(target_flops / flops_per_step));
}

StudyOutcome run_study(const StudyConfig& study, const StudyOptions& options,
                       const StudyHooks& hooks) {
  Session session(study, options, hooks);
  if (options.report_only && study.trains()) session.check_anything_to_report();
  session.measure_finished();
  const bool complete = options.report_only || !study.trains() || session.run_missing();
  session.publish();
  return {.results = session.results(), .left_out = session.left_out(), .interrupted = !complete};
}

}  // namespace penstock::study
