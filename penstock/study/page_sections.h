// The sections of the report that are plain HTML. Each returns "" where the rows have nothing for
// it.
#pragma once

#include <span>
#include <string>

#include "penstock/study/results.h"
#include "penstock/study/text_samples.h"

namespace penstock::study {

/// Whether the page is about one run, so that nothing is said of variants and seeds.
inline bool one_run(Variants variants) {
  return variants.size() == 1 && variants[0].rows.size() == 1;
}

/// The domains that were measured, sorted; none where there is but one, which is the whole.
std::vector<std::string> measured_domains(Variants variants);

/// The best variant of each column is tinted only where all spent the same compute and beat the
/// baseline.
std::string results_section(Variants variants, const Comparison& comparison);
/// A run's figures, one a line.
std::string figures_section(const VariantSummary& run);
/// What the trainer warned of, by run; "" where it did not.
std::string warnings_section(Variants variants);
/// Held-out text as the run's model continues it.
std::string text_section(const TextSamples& samples);
/// Quality and cost by experts per token: charts, table, published numbers, differences from the
/// reference; and what the baseline lets one say.
std::string by_k_section(Variants variants, const Comparison& comparison);
/// Validation loss by domain.
std::string domain_section(Variants variants, const Comparison& comparison);
/// Heat maps of the experts' load, whole and by domain.
std::string load_section(Variants variants);
/// Active experts per token by layer and domain.
std::string active_section(Variants variants);
/// Bars of throughput, share of peak and memory.
std::string speed_section(Variants variants);
/// Settings in which the variants differ, and those they share.
std::string settings_section(Variants variants);
/// The command, and of several runs each one's hash.
std::string reproduce_section(const StudyResults& results);

}  // namespace penstock::study
