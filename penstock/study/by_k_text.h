// Figures by experts per token, for a terminal.
#pragma once

#include <span>
#include <string>

#include "penstock/study/results.h"

namespace penstock::study {

/// Variants by k: quality, the published numbers beneath, FLOPs; differences from the reference
/// seed by seed; and what the baseline lets one say of the order. "" where there is none of it.
std::string by_k_text(std::span<const VariantSummary> variants, const Comparison& comparison);

/// "test split, final checkpoint", of all rows that were measured.
std::string measured_on(std::span<const VariantSummary> variants);

}  // namespace penstock::study
