// Makes the model that a config names, whichever architecture that is.
#pragma once

#include <cstdint>
#include <memory>

#include "penstock/models/language_model.h"
#include "penstock/models/model_config.h"
#include "penstock/models/model_place.h"

namespace penstock {

/// The model that `config.architecture` names, or the part of it that belongs to a place. Its
/// weights are as memory is, to be read or drawn. REQUIRES: check_divides().
std::shared_ptr<LanguageModel> make_model(const ModelConfig& config, const ModelPlace& place = {});
/// The same with weights drawn by the seed: those of the whole model, whatever the place.
std::shared_ptr<LanguageModel> make_model(const ModelConfig& config, std::uint64_t seed,
                                          const ModelPlace& place = {});

}  // namespace penstock
