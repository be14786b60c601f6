// A study's results: rows, and the figures of the table. It reads no files (results_file.h does),
// trains nothing and writes no HTML.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "penstock/study/config/comparison.h"
#include "penstock/study/runs/run_row.h"
#include "penstock/study/statistics.h"
#include "penstock/study/table.h"

namespace penstock::study {

/// A diverged run: its loss or gradient was not finite.
struct DivergedRun {
  std::string variant, label;
  std::int64_t seed = 0;
  std::string config_hash;
  std::string reason;  ///< the training's message

  template <class V>
  void visit(V& v) {
    v("variant", variant);
    v("label", label);
    v("seed", seed, Presence::required);
    v("config_hash", config_hash);
    v("reason", reason);
  }
};

/// All data of a report.
struct StudyResults {
  std::string name;
  std::string title;
  std::string claim;
  std::string scale;    ///< empty if the study has none
  std::string command;  ///< command that reproduces the study
  std::int64_t planned_runs = 0;
  Comparison comparison;
  std::vector<RunRow> rows;  ///< variants in the study's order, seeds in order
  std::vector<DivergedRun> diverged;
  std::vector<Table> tables;  ///< tables that need no run (closed_tables.h)

  /// Whether the results are empty.
  bool empty() const { return rows.empty() && diverged.empty() && tables.empty(); }
};

/// The summary of one variant's rows.
struct VariantSummary {
  std::string name;
  std::string label;           ///< with the mark "(not causal)" or "(by thresholds)" if it applies
  bool causal = true;          ///< whether every row is causal
  bool by_thresholds = false;  ///< whether any row is by thresholds
  std::vector<const RunRow*> rows;
  Spread validation_loss, bits_per_byte, test_loss, active_experts, tokens_per_second,
      share_of_peak, peak_bytes, steps, total_flops, settled_step;
  std::size_t steered = 0;  ///< runs that steer their sparsity to a target and so may settle
};
using Variants = std::span<const VariantSummary>;

/// Whether there is only one run. Reports then do not mention variants and seeds.
inline bool one_run(Variants variants) {
  return variants.size() == 1 && variants[0].rows.size() == 1;
}

/// One summary per variant, in the order of first appearance. The rows must outlive it.
std::vector<VariantSummary> summarize(std::span<const RunRow> rows);

/// A figure of a run, if the run has it.
using Figure = std::function<std::optional<double>(const RunRow& row)>;
/// A figure of a summary that is a spread over its rows, and its name in results.json.
struct SummaryFigure {
  const char* name;
  Spread VariantSummary::*spread;
  Figure of;
};
const std::vector<SummaryFigure>& summary_figures();

/// The spread over the variant's rows that have the figure.
Spread spread_of(const VariantSummary& variant, const Figure& figure);
/// The step at which ReMoE's stage II begins.
Spread sparsifying_step(const VariantSummary& variant);
/// The variant with the lowest mean, without variants that are not causal. Null for fewer than two
/// variants, or if none has a mean.
const VariantSummary* lowest(Variants variants,
                             const std::function<Spread(const VariantSummary&)>& value);

}  // namespace penstock::study
