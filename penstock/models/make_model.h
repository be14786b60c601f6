// Makes the model of a config, of any architecture.
#pragma once

#include <cstdint>
#include <memory>

#include "penstock/models/language_model.h"
#include "penstock/models/model_config.h"
#include "penstock/models/model_place.h"

namespace penstock {

/// Makes the model of `config.architecture`, or a place's part of it. The weights are not
/// initialised; the caller reads or draws them. REQUIRES: check_divides().
std::shared_ptr<LanguageModel> make_model(const ModelConfig& config, const ModelPlace& place = {});
/// The same with weights drawn by the seed. A part gets the same numbers as in the whole model.
std::shared_ptr<LanguageModel> make_model(const ModelConfig& config, std::uint64_t seed,
                                          const ModelPlace& place = {});

}  // namespace penstock
