// How many experts' states a change of the weights turns over: ReMoE's flip rate and flip count
// (arXiv:2412.14711, Eq. 14 and 15). When the weights change is the caller's matter.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "penstock/data/corpus/corpus.h"
#include "penstock/models/language_model.h"

namespace penstock::analysis {

struct CalibrationOptions {
  Split split = Split::kValidation;
  std::int64_t tokens = 4096;          ///< about so many, from evenly spaced windows
  std::int64_t sequence_length = 256;  ///< of a window
};

/// Which experts are on for each of the split's calibration tokens, [L, T, E] bool on the CPU, in
/// evaluation mode and without memory. The same tokens every time.
/// Throws Error for a dense model and one that blends experts.
at::Tensor active_experts(LanguageModel& model, const Corpus& corpus,
                          const CalibrationOptions& options);

/// Σ |after − before| / (L·T·E): the share of states that differ; times E it is the flip count.
/// REQUIRES: equal shapes.
double flip_rate(const at::Tensor& before, const at::Tensor& after);

}  // namespace penstock::analysis
