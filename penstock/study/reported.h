// What a study shows of its finished runs besides the results and the figures by k: accuracy after
// fine-tuning, entropy of the routers, sample tokens.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "penstock/study/results.h"
#include "penstock/study/shown_table.h"

namespace penstock::study {

/// Accuracy of each fine-tuning by k over the seeds, the majority class's and published ones
/// beneath; empty without fine-tunings.
std::vector<ShownTable> finetune_tables(std::span<const VariantSummary> variants,
                                        const Comparison& comparison);

/// Loss, perplexity and bits per byte on the test split (or validation, where there is no other)
/// beside each variant's published result; empty where the study names none.
std::vector<ShownTable> published_tables(std::span<const VariantSummary> variants,
                                         const Comparison& comparison);

/// Entropy by layer, mean over seeds ± standard deviation over tokens, at step 0 beneath, and
/// published ones; empty where no run has a report.
std::vector<ShownTable> entropy_tables(std::span<const VariantSummary> variants,
                                       const Comparison& comparison);

/// The sample tokens' distributions of each variant's first run: as lines of text, and as the
/// page's heat maps; "" where no run has any.
std::string samples_text(std::span<const VariantSummary> variants);
std::string samples_section(std::span<const VariantSummary> variants);

/// All of these, and the study's closed tables, as text and as sections of the page.
std::string reported_text(const StudyResults& results, std::span<const VariantSummary> variants);
std::string reported_sections(const StudyResults& results,
                              std::span<const VariantSummary> variants);

}  // namespace penstock::study
