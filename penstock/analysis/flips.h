// Measures how many experts a change of the weights switches on or off: ReMoE's flip rate and flip
// count (arXiv:2412.14711, Eq. 14 and 15). The caller changes the weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "penstock/data/corpus/corpus.h"
#include "penstock/models/language_model.h"

namespace penstock::analysis {

struct CalibrationOptions {
  Split split = Split::kValidation;
  std::int64_t tokens = 4096;          ///< approximate number of tokens, from evenly spaced windows
  std::int64_t sequence_length = 256;  ///< tokens in a window
};

/// The experts that are on for each calibration token of the split, [L, T, E] bool on the CPU, in
/// evaluation mode and without memory. Every call uses the same tokens.
/// Throws Error for a dense model and for a model that blends experts.
at::Tensor active_experts(LanguageModel& model, const Corpus& corpus,
                          const CalibrationOptions& options);

/// Σ |after − before| / (L·T·E): the share of states that differ. E times the rate is the flip
/// count. REQUIRES: equal shapes.
double flip_rate(const at::Tensor& before, const at::Tensor& after);

}  // namespace penstock::analysis
