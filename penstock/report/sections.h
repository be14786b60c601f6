// Makes the parts of the pages and texts of studies and runs, nearly all as data. A part is empty
// if the rows have no figures for it. Measurements make their own sections (study/measurement.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/study/runs/results.h"

namespace penstock::report {

/// The table of results, with one row per variant and without columns that nothing fills; the best
/// of each column is marked only where all spent the same compute and beat the baseline. Variants
/// of which every run diverged have a row too. Then the differences seed by seed (compare_shown()),
/// where there are any, those of the pairs that the study chooses, and what has to be said: what
/// diverged, unequal and uncounted compute.
study::Section results_section(study::Variants variants, const study::StudyResults& results);
/// A run's figures, one in each row, with their explanations.
study::Table figures_table(const study::VariantSummary& run);
/// The steps at which ReMoE's stages begin, and the time of each stage; without rows if no run has
/// stages.
study::Table stage_table(study::Variants variants);
/// ReMoE's regulariser and its product with λ, mean over each stage; without rows if no run has
/// both.
study::Table regulariser_table(study::Variants variants);
/// Mean ± sd of each layer's sparsity over the steps, for runs that steer it; without rows if no
/// run does.
study::Table layer_sparsity_table(study::Variants variants);
/// For a run of several processes: the share of the steps' time that the exchange took, and for
/// each process the time that it computed and how often it was the slowest. Empty for one process.
study::Section rank_section(const study::RunRow& run);
/// The domains that were measured, sorted; none if there is only one, since it is the whole text.
std::vector<std::string> measured_domains(study::Variants variants);
/// Validation loss by domain; without rows if there is only one domain.
study::Table domain_table(study::Variants variants, const study::Comparison& comparison);
/// Settings in which the variants differ, or those that they share. With one run all settings are
/// shared.
study::Table differing_settings(study::Variants variants);
study::Table shared_settings(study::Variants variants);
/// Each run with its hash; without rows if there is only one run.
study::Table runs_table(const study::StudyResults& results);
/// Loss, perplexity and bits per byte on the test split (or the validation split if there is no
/// test split) beside each variant's published result; validation losses, settled steps and hours
/// by stage beside the paper's; nothing if the study states no published numbers.
std::optional<study::Section> published_results(study::Variants variants,
                                                const study::Comparison& comparison);
/// Every chart for which some variant has a curve, in the sections "loss", "training", "ranks" and
/// "routing". Series of the section "loss" also have the cost up to each step ("costs": tokens,
/// FLOPs, seconds), if it is known for every series.
std::vector<study::Chart> training_charts(study::Variants variants);

/// Heat maps of the experts' load, whole and by domain.
std::vector<study::Section> load_sections(study::Variants variants);
/// Active experts per token by layer and domain.
study::Section active_section(study::Variants variants);
/// Bars of throughput, share of peak and memory, as HTML.
std::string speed_section(study::Variants variants);
/// The command that reproduces the study, and with several runs each run's hash, as HTML.
std::string reproduce_section(const study::StudyResults& results);

}  // namespace penstock::report
