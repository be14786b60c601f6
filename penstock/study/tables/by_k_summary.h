// Rows measured at several k: means over seeds, differences from the reference seed by seed, and
// whether the variants may be ranked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "penstock/study/runs/pair_comparison.h"
#include "penstock/study/runs/results.h"
#include "penstock/study/tables/measured_k.h"

namespace penstock::study {

/// The rows for the figures by k. Measurements with folded routers follow as separate variants,
/// "NAME-folded".
std::vector<RunRow> by_k_rows(std::span<const RunRow> rows);

/// The values of k that any row was measured with, ascending; {0} if no model has a k; empty if
/// nothing was measured by k.
std::vector<std::int64_t> measured_ks(Variants variants);

/// Bits per byte or perplexity.
double quality_of(const KFigures& figures, Quality measure);
/// The quality at that k, over seeds. A model without k has the same value at every k.
Spread quality_at(const VariantSummary& variant, std::int64_t k, Quality measure);
/// Forward FLOPs per token at that k, mean over seeds; 0 if not measured.
double flops_at(const VariantSummary& variant, std::int64_t k);

/// The first's quality at that k minus the second's, by pairs of the same seed; nothing if no seed
/// of both was measured there.
std::optional<PairedDifference> difference_at(const VariantPair& pair, std::int64_t k,
                                              Quality measure);

/// A variant whose mean bits per byte is not below the baseline's.
struct Undertrained {
  std::string variant, label;
  double bits_per_byte = 0;
};
/// The undertrained variants. With a k: among the variants measured at that k. Without a k: among
/// all, each at its best k (or on the test or validation split if it was not measured by k).
std::vector<Undertrained> undertrained(Variants variants, const Comparison& comparison,
                                       std::optional<std::int64_t> k = {});

/// Sentences about the variants' order; none without a baseline. If variants do not beat the
/// baseline at their best k, it names them. Otherwise it lists for each k the variants from best to
/// worst, or the variants that do not beat the baseline at that k.
std::vector<std::string> verdict(Variants variants, const Comparison& comparison);
/// Whether the variants may be ranked: there is a baseline, and every variant beats it at its best
/// k and, if given, at `k`.
bool order_may_be_told(Variants variants, const Comparison& comparison,
                       std::optional<std::int64_t> k = {});

/// Whether a table may tint the best value of a column: all variants spent the same compute
/// (equal_compute.h), and none is undertrained.
bool may_be_tinted(Variants variants, const Comparison& comparison);

/// One model, or one variant's seeds, at one number of experts per token.
struct KSpread {
  std::int64_t k = 0;                  ///< 0: the model has no k; the point holds for every k
  double megaflops = 0;                ///< FLOPs of the forward pass per token, in millions
  double mean = 0, low = 0, high = 0;  ///< quality over seeds
};
/// The point of a variant's seeds, without its k. REQUIRES: a row of the variant has the figures.
KSpread spread_point(const VariantSummary& variant, const Figure& quality, const Figure& flops);

struct KSeries {
  std::string label;
  std::size_t variant = 0;  ///< selects the colour
  double trained_k = 0;     ///< k of the point drawn with a ring; 0: none
  std::vector<KSpread> points;
};

/// The lines of the charts: one per variant, with the range of its seeds.
std::vector<KSeries> k_series(Variants variants, const Comparison& comparison);

/// A line of a chart, without points. `add_point` adds one.
nlohmann::json chart_line(const std::string& label, std::size_t variant);
void add_point(nlohmann::json& line, double x, const KSpread& point);

/// The charts "by-k" and "by-flops"; `quality` is on the y axis. A series with one point for every
/// k is a horizontal line in "by-k". A chart without points is left out.
std::vector<Chart> by_k_charts(std::span<const KSeries> series, Quality quality,
                               bool several_seeds);

/// Text such as "1.2345", or "12.345" for perplexities.
std::string quality_text(double value, Quality measure);

/// All figures by k as tables, charts and remarks; empty if nothing was measured.
std::vector<Section> by_k_sections(std::span<const RunRow> rows, const Comparison& comparison);
/// The object {"by_k", "by_k_differences", "undertrained"} for results.json, with "by_k_pairs" if
/// the study chooses pairs.
nlohmann::json by_k_json(std::span<const RunRow> rows, const Comparison& comparison);

}  // namespace penstock::study
