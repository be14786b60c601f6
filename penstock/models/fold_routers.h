// Replaces a model's routers by plain matrices with the same function, for inference and for
// formats that know plain routers alone. Exporting checks what the target format computes.
#pragma once

#include <memory>

#include "penstock/models/language_model.h"

namespace penstock {

/// A copy of the model in which every scorer is `linear`, with the matrix and bias that
/// Scorer::fold says; selector, k and experts stay, balancers go. Outside training it computes what
/// the model does, bitwise where the scorer itself applies the folded matrix.
/// Throws Error for a dense model and for scorers that no one matrix replaces.
/// Cost: a copy of the parameters.
std::shared_ptr<LanguageModel> fold_routers(LanguageModel& model);

}  // namespace penstock
