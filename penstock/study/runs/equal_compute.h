// Checks whether a study's variants spent the same training compute, which a comparison of their
// final losses assumes.
#pragma once

#include <span>
#include <string>

#include "penstock/study/runs/results.h"

namespace penstock::study {

/// Two variants count as equally expensive up to this ratio of training FLOPs, because steps are
/// whole numbers and routers themselves cost a little.
inline constexpr double kEqualCompute = 1.02;

/// The largest mean of the variants' training FLOPs ÷ the smallest; 1 if fewer than two variants
/// state theirs.
double compute_ratio(std::span<const VariantSummary> variants);

/// "1.5x", "1.05x".
std::string ratio_text(double ratio);

/// "3 variants begin with dense parent, whose training (5.12 T FLOPs) is not counted with theirs",
/// joined by "; "; "" if all begin with random weights.
std::string uncounted_compute(std::span<const VariantSummary> variants,
                              const Comparison& comparison);

/// "compute differs by 1.5x (12.6 T to 19.2 T training FLOPs)"; "" if it is equal.
std::string compute_difference(std::span<const VariantSummary> variants);

}  // namespace penstock::study
