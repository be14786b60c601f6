// The parts that pages and texts of studies and runs are made of, nearly all as data; each is empty
// where the rows have nothing for it. Measurements make their own sections (study/measurement.h).
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
/// A run's figures, one a row, with what they are.
study::Table figures_table(const study::VariantSummary& run);
/// When ReMoE's stages begin, and the time of each; without rows where no run has any.
study::Table stage_table(study::Variants variants);
/// ReMoE's regulariser and its product with λ, mean over each stage; without rows where no run has
/// both.
study::Table regulariser_table(study::Variants variants);
/// Mean ± sd of each layer's sparsity over the steps, where something steers it; without rows
/// where nothing does.
study::Table layer_sparsity_table(study::Variants variants);
/// For a run of several processes: how much of the steps the exchange took, what each process
/// computed, and how often it was the slowest; empty of one process.
study::Section rank_section(const study::RunRow& run);
/// The domains that were measured, sorted; none where there is but one, which is the whole.
std::vector<std::string> measured_domains(study::Variants variants);
/// Validation loss by domain; without rows where there is one domain only.
study::Table domain_table(study::Variants variants, const study::Comparison& comparison);
/// Settings in which the variants differ, or those that they share; of the one run all are shared.
study::Table differing_settings(study::Variants variants);
study::Table shared_settings(study::Variants variants);
/// Each run with its hash; without rows where there is one.
study::Table runs_table(const study::StudyResults& results);
/// Loss, perplexity and bits per byte on the test split (or validation, where there is no other)
/// beside each variant's published result; validation losses, settling and hours by stage beside
/// the paper's; nothing where the study names none.
std::optional<study::Section> published_results(study::Variants variants,
                                                const study::Comparison& comparison);
/// Every chart for which some variant has a curve, in the sections "loss", "training", "ranks" and
/// "routing". Series of the section "loss" also say what a step had cost by then ("costs":
/// tokens, FLOPs, seconds), where every one of them knows it.
std::vector<study::Chart> training_charts(study::Variants variants);

/// Heat maps of the experts' load, whole and by domain.
std::vector<study::Section> load_sections(study::Variants variants);
/// Active experts per token by layer and domain.
study::Section active_section(study::Variants variants);
/// Bars of throughput, share of peak and memory, as HTML.
std::string speed_section(study::Variants variants);
/// The command, and of several runs each one's hash, as HTML.
std::string reproduce_section(const study::StudyResults& results);

}  // namespace penstock::report
