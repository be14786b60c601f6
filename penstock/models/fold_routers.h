// Replaces a model's routers by plain matrices with the same function. Inference, and formats that
// know only plain routers, use them. The export itself checks that the target format computes the
// gates.
#pragma once

#include <memory>

#include "penstock/models/language_model.h"

namespace penstock {

/// A copy of the model in which every scorer is `linear`, with the matrix and bias that
/// Scorer::fold gives. The selector, k and the experts stay. The copy keeps only balancers that
/// bias the choice or keep thresholds. Outside training the copy computes the same as the model,
/// and bitwise the same if the scorer itself applies the folded matrix.
/// Throws Error for a dense model and for scorers that no single matrix can replace.
/// Cost: a copy of the parameters.
std::shared_ptr<LanguageModel> fold_routers(LanguageModel& model);

}  // namespace penstock
