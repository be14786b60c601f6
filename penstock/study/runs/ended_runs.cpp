#include "penstock/study/runs/ended_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/study/runs/run_folder.h"
#include "penstock/study/runs/run_reader.h"

namespace penstock::study {
namespace {

/// A file in the folder of a run that diverged. It keeps later calls from training the run again.
constexpr const char* kDivergedFile = "diverged.json";

}  // namespace

EndedRuns::EndedRuns(EndedRunsOptions options) : options_(std::move(options)) {
  if (!options_.kept_rows.empty()) kept_ = read_kept_runs(options_.kept_rows);
  if (!options_.reported.empty() && std::filesystem::exists(options_.reported))
    reported_ = read_results(options_.reported).diverged;
}

bool EndedRuns::take(const Variant& variant, std::int64_t seed, const PlannedRun& planned,
                     bool retried) {
  if (take_finished(variant, seed, planned)) return true;
  if (options_.retry_diverged && !retried) return false;
  const auto reason = divergence(variant, seed, planned);
  if (reason) note_diverged(variant, seed, planned.hash, *reason);
  return reason.has_value();
}

bool EndedRuns::take_finished(const Variant& variant, std::int64_t seed,
                              const PlannedRun& planned) {
  try {
    if (study::is_finished(planned.directory)) {
      keep(variant, seed, planned, read_run(planned.directory));
      return true;
    }
  } catch (const DamagedResult&) {
    if (!options_.repairs) throw;
    print_line(options_.progress,
               concat(planned.directory,
                      "/finished.json was damaged; it is put aside as finished.json.damaged"));
    put_result_aside(planned.directory);
  }
  // The folder of a run has its measurements. A kept row has its own.
  const auto with_hash = [&](const std::string& hash) {
    return std::ranges::find_if(kept_.rows, [&](const RunRow& row) {
      return row.variant == variant.name && row.seed == seed && row.config_hash == hash;
    });
  };
  auto kept = with_hash(planned.hash);
  if (kept == kept_.rows.end() && !planned.earlier_hash.empty())
    kept = with_hash(planned.earlier_hash);
  if (kept == kept_.rows.end()) return false;
  keep(variant, seed, planned, *kept);
  return true;
}

void EndedRuns::keep(const Variant& variant, std::int64_t seed, const PlannedRun& planned,
                     RunRow row) {
  row.variant = variant.name;
  row.label = variant.label;
  row.seed = seed;
  row.config_hash = planned.hash;
  rows_[{variant.name, seed}] = std::move(row);
}

void EndedRuns::diverged(const Variant& variant, std::int64_t seed, const PlannedRun& planned,
                         const std::string& reason) {
  write_kept_object({{"reason", reason}}, planned.directory, kDivergedFile);
  note_diverged(variant, seed, planned.hash, reason);
}

void EndedRuns::forget_divergence(const PlannedRun& planned) {
  std::filesystem::remove(std::filesystem::path(planned.directory) / kDivergedFile);
}

void EndedRuns::note_diverged(const Variant& variant, std::int64_t seed, const std::string& hash,
                              const std::string& reason) {
  print_line(options_.progress,
             fmt::format("{}, seed {}: diverged: {}", variant.label, seed, reason));
  diverged_[{variant.name, seed}] = {.variant = variant.name,
                                     .label = variant.label,
                                     .seed = seed,
                                     .config_hash = hash,
                                     .reason = reason};
}

/// Why the run diverged; no value if it did not.
std::optional<std::string> EndedRuns::divergence(const Variant& variant, std::int64_t seed,
                                                 const PlannedRun& planned) const {
  if (const auto kept = read_kept_object(planned.directory, kDivergedFile))
    return field_of<std::string>(*kept, "reason", planned.directory + "/" + kDivergedFile);
  // If the run's folder exists, kept rows are ignored, because the run may have been started
  // again. An earlier version recorded the divergence only in results.json. A report must not
  // lose it.
  for (const DivergedRun& run :
       std::filesystem::exists(planned.directory) ? reported_ : kept_.diverged)
    if (run.variant == variant.name && run.seed == seed &&
        (run.config_hash.empty() || planned.has_hash(run.config_hash)))
      return run.reason;
  return std::nullopt;
}

KeptRuns EndedRuns::in_order(const StudyConfig& study) const {
  KeptRuns out;
  for (const auto& variant : study.variants)
    for (const std::int64_t seed : study.seeds) {
      const RunKey key = {variant.name, seed};
      if (const auto row = rows_.find(key); row != rows_.end()) out.rows.push_back(row->second);
      if (const auto run = diverged_.find(key); run != diverged_.end())
        out.diverged.push_back(run->second);
    }
  return out;
}

}  // namespace penstock::study
