// The pages of commands other than studies and runs.
#pragma once

#include <span>
#include <string>

#include "penstock/analysis/analysis.h"
#include "penstock/eval/k_figures.h"

namespace penstock::report {

/// The page of `penstock analyse`: entropy, sample tokens, load, flips, experts by token and
/// domain, similarity and Jacobians. For a result that is missing it gives the reason.
std::string analysis_page(const analysis::Analysis& a);

/// The page of `penstock eval --plot`: table and both charts of one model by experts per token.
/// `measured` describes the text that was measured.
std::string by_k_page(const std::string& model, const std::string& measured,
                      std::span<const KFigures> points, double trained_k);

/// The page of a fine-tuning's run directory: accuracy by experts per token beside the majority
/// class's, loss and accuracy over the steps, the settings. If the run has not finished, the page
/// has no test results. Throws Error naming a damaged file.
std::string finetune_page(const std::string& run_directory);

}  // namespace penstock::report
