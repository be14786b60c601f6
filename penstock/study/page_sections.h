// The sections of the report that are plain HTML. Each returns "" where the rows have nothing for
// it.
#pragma once

#include <span>
#include <string>

#include "penstock/study/results.h"

namespace penstock::study {

using Variants = std::span<const VariantSummary>;

std::string results_section(Variants variants, const Comparison& comparison);
/// Quality and cost by experts per token: charts, table, published numbers, differences from the
/// reference; and what the baseline lets one say.
std::string by_k_section(Variants variants, const Comparison& comparison);
/// Validation loss by domain.
std::string domain_section(Variants variants);
/// Heat maps of the experts' load, whole and by domain.
std::string load_section(Variants variants);
/// Active experts per token by layer and domain.
std::string active_section(Variants variants);
/// Bars of throughput, share of peak and memory.
std::string speed_section(Variants variants);
/// Settings in which the variants differ, and those they share.
std::string settings_section(Variants variants);
/// The command and every run's hash.
std::string reproduce_section(const StudyResults& results);

}  // namespace penstock::study
