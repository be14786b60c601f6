// Rows measured at several k: means over seeds, differences from the reference seed by seed, and
// whether an order of the variants may be told at all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "penstock/study/by_k_charts.h"
#include "penstock/study/results.h"

namespace penstock::study {

/// The numbers of experts that some row was measured with, ascending; {0} where all models have
/// none to set; empty where nothing was measured so.
std::vector<std::int64_t> measured_ks(std::span<const VariantSummary> variants);

/// Bits per byte or perplexity at that k, over seeds. A model without k has the same at each.
Spread quality_at(const VariantSummary& variant, std::int64_t k, const std::string& measure);
/// Forward FLOPs per token at that k, mean over seeds; 0 where not measured.
double flops_at(const VariantSummary& variant, std::int64_t k);

/// One variant's quality minus the reference's, by pairs of the same seed, that is, where their
/// batches are alike, of the same order of the data.
struct KComparison {
  std::string variant, label;
  std::string reference_label;
  std::int64_t k = 0;
  PairedDifference difference;
};
/// k by k, variants in their order; only where both were measured with a common seed.
std::vector<KComparison> compare_with_reference(std::span<const VariantSummary> variants,
                                                const Comparison& comparison);

/// A variant whose mean bits per byte, at its best k (or on the test or validation split where it
/// was not measured by k), is not below the baseline's.
struct Undertrained {
  std::string variant, label;
  double bits_per_byte = 0;
};
std::vector<Undertrained> undertrained(std::span<const VariantSummary> variants,
                                       const Comparison& comparison);

/// The variants whose mean bits per byte at that k is not below the baseline's.
std::vector<Undertrained> undertrained_at(std::span<const VariantSummary> variants,
                                          const Comparison& comparison, std::int64_t k);

/// What may be said of the order: nothing without a baseline; "undertrained: NAME does not beat
/// ..." for each variant that does not at its best k; and else, k by k, the variants from best to
/// worst, or "undertrained at k = ..." where one of them does not beat the baseline at that k.
std::vector<std::string> verdict(std::span<const VariantSummary> variants,
                                 const Comparison& comparison);
/// Whether there is a baseline and every variant beats it, at its best k; with a k, also at that.
bool order_may_be_told(std::span<const VariantSummary> variants, const Comparison& comparison);
bool order_may_be_told(std::span<const VariantSummary> variants, const Comparison& comparison,
                       std::int64_t k);

/// Whether a table may tint the best of its columns: all spent the same compute (compute.h), and
/// none is undertrained.
bool may_be_tinted(std::span<const VariantSummary> variants, const Comparison& comparison);

/// The published number of a variant at that k, or none.
std::optional<double> published_at(const Comparison& comparison, const std::string& variant,
                                   std::int64_t k);

/// For the charts: one line a variant, with the range of its seeds.
std::vector<KSeries> k_series(std::span<const VariantSummary> variants,
                              const Comparison& comparison);

/// "1.2345", or "12.345" for perplexities.
std::string quality_text(double value, const std::string& measure);

}  // namespace penstock::study
