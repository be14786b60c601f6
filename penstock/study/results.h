// A study's results: rows, the figures of the table, and the two files they are kept in. No running
// and no HTML.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "penstock/study/comparison.h"
#include "penstock/study/run_row.h"
#include "penstock/study/shown_table.h"
#include "penstock/study/statistics.h"

namespace penstock::study {

/// A run that ended in a loss or gradient that is not finite.
struct DivergedRun {
  std::string variant, label;
  std::int64_t seed = 0;
  std::string config_hash;
  std::string reason;  ///< what the training said
};

/// Everything a report shows.
struct StudyResults {
  std::string name;
  std::string title;
  std::string claim;
  std::string scale;    ///< empty where the study has none
  std::string command;  ///< reproduces the study
  int planned_runs = 0;
  Comparison comparison;
  std::vector<RunRow> rows;  ///< variants in the study's order, seeds in order
  std::vector<DivergedRun> diverged;
  std::vector<ShownTable> tables;  ///< shown without a run (closed_tables.h)
};

/// The rows as the figures by k show them: what was measured with folded routers follows as
/// variants of their own, "NAME-folded".
std::vector<RunRow> by_k_rows(std::span<const RunRow> rows);

/// The rows of one variant.
struct VariantSummary {
  std::string name;
  std::string label;   ///< marked "(not causal)" where it is not
  bool causal = true;  ///< of every row
  std::vector<const RunRow*> rows;
  Spread validation_loss, bits_per_byte, test_loss, active_experts, tokens_per_second,
      share_of_peak, peak_bytes, steps, total_flops, settled_step;
  std::size_t steered = 0;  ///< runs that steer their sparsity to a target and so may settle
};
using Variants = std::span<const VariantSummary>;

/// One summary per variant, in the order of first appearance. The rows must outlive it.
std::vector<VariantSummary> summarize(std::span<const RunRow> rows);

/// Validation losses of two variants, seed by seed.
struct PairedComparison {
  std::string first, second;  ///< labels; the difference is first − second
  PairedDifference difference;
  double compute = 0;  ///< the first's training FLOPs ÷ the second's; 0: not stated
};
/// Every pair of variants that share at least one seed.
std::vector<PairedComparison> compare_pairs(std::span<const VariantSummary> variants);
/// Those that people are shown: every pair of a few variants, of many each minus the reference.
std::vector<PairedComparison> shown_pairs(std::span<const VariantSummary> variants,
                                          const Comparison& comparison);

/// The layout of results.json: {"format": "penstock-study", "version": 1, "name", "title", "claim",
/// "scale", "command", "planned_runs", "compute_ratio", "rows": [...], "diverged": [...],
/// "summary": [...], "paired": [...], "by_k": [...], "by_k_differences": [...], "undertrained":
/// [...], "tables": [...], and what to_json(Comparison) gives}.
nlohmann::json to_json(const StudyResults& results);
/// Reads what to_json wrote (summary and pairs are worked out again). Throws Error naming `where`.
StudyResults results_from_json(const nlohmann::json& object, const std::string& where);

/// results.json, complete or not at all.
void write_results(const StudyResults& results, const std::string& path);
/// What write_results wrote. Throws Error naming the path where it is missing or something else.
StudyResults read_results(const std::string& path);

/// What is kept between sittings, by variant, seed and config hash.
struct KeptRuns {
  std::vector<RunRow> rows;
  std::vector<DivergedRun> diverged;
};
/// A missing file holds none.
KeptRuns read_kept_runs(const std::string& path);
/// Adds finished rows and diverged runs to the file, replacing equal keys; others stay. Written
/// aside, renamed.
void merge_kept_runs(const std::string& path, const KeptRuns& runs);

}  // namespace penstock::study
