// Rows measured at several k: means over seeds, differences from the reference seed by seed, and
// whether an order of the variants may be told at all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "penstock/study/runs/results.h"
#include "penstock/study/tables/measured_k.h"

namespace penstock::study {

/// The rows as the figures by k show them: what was measured with folded routers follows as
/// variants of their own, "NAME-folded".
std::vector<RunRow> by_k_rows(std::span<const RunRow> rows);

/// The numbers of experts that some row was measured with, ascending; {0} where all models have
/// none to set; empty where nothing was measured so.
std::vector<std::int64_t> measured_ks(Variants variants);

/// Bits per byte or perplexity at that k, over seeds. A model without k has the same at each.
Spread quality_at(const VariantSummary& variant, std::int64_t k, Quality measure);
/// Forward FLOPs per token at that k, mean over seeds; 0 where not measured.
double flops_at(const VariantSummary& variant, std::int64_t k);

/// One variant's quality minus the reference's, by pairs of the same seed.
struct KComparison {
  std::string variant, reference_label;
  std::int64_t k = 0;
  PairedDifference difference;
};
/// k by k, variants in their order; only where both were measured with a common seed.
std::vector<KComparison> compare_with_reference(Variants variants, const Comparison& comparison);

/// A variant whose mean bits per byte is not below the baseline's.
struct Undertrained {
  std::string variant, label;
  double bits_per_byte = 0;
};
/// At that k, of those that were measured there; without a k, of all at their best k (or on the
/// test or validation split where they were not measured by k).
std::vector<Undertrained> undertrained(Variants variants, const Comparison& comparison,
                                       std::optional<std::int64_t> k = {});

/// What may be said of the order: nothing without a baseline; which variants do not beat it at
/// their best k; and else, k by k, the variants from best to worst, or which do not beat it at that
/// k.
std::vector<std::string> verdict(Variants variants, const Comparison& comparison);
/// Whether there is a baseline and every variant beats it, at its best k; with a k, also at that.
bool order_may_be_told(Variants variants, const Comparison& comparison,
                       std::optional<std::int64_t> k = {});

/// Whether a table may tint the best of its columns: all spent the same compute (equal_compute.h),
/// and none is undertrained.
bool may_be_tinted(Variants variants, const Comparison& comparison);

/// One model, or one variant's seeds, at one number of experts per token.
struct KSpread {
  std::int64_t k = 0;                  ///< 0: the model has no k, the point holds for all
  double megaflops = 0;                ///< forward, per token
  double mean = 0, low = 0, high = 0;  ///< quality over seeds
};

struct KSeries {
  std::string label;
  std::size_t variant = 0;  ///< colour
  double trained_k = 0;     ///< the point that is ringed; 0: none
  std::vector<KSpread> points;
};

/// For the charts: one line a variant, with the range of its seeds.
std::vector<KSeries> k_series(Variants variants, const Comparison& comparison);

/// The charts "by-k" and "by-flops"; `quality` is on the y axis. A series with one point for all k
/// is a level line in the first. A chart without points is left out.
std::vector<Chart> by_k_charts(std::span<const KSeries> series, Quality quality,
                               bool several_seeds);

/// "1.2345", or "12.345" for perplexities.
std::string quality_text(double value, Quality measure);

/// All of it as tables, charts and words; none where there is nothing to say.
std::vector<Section> by_k_sections(std::span<const RunRow> rows, const Comparison& comparison);
/// {"by_k", "by_k_differences", "undertrained"} of results.json.
nlohmann::json by_k_json(std::span<const RunRow> rows, const Comparison& comparison);

}  // namespace penstock::study
