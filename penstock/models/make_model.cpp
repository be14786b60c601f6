#include "penstock/models/make_model.h"

#include "penstock/models/decoder.h"
#include "penstock/models/formats/rank_slices.h"
#include "penstock/models/transformer_xl.h"

namespace penstock {

std::shared_ptr<LanguageModel> make_model(const ModelConfig& config, const ModelPlace& place) {
  if (config.transformer_xl()) return std::make_shared<TransformerXl>(config, place);
  return std::make_shared<Decoder>(config, place);
}

std::shared_ptr<LanguageModel> make_model(const ModelConfig& config, std::uint64_t seed,
                                          const ModelPlace& place) {
  auto model = make_model(config, place);
  const auto slices = model_slices(model->config(), place.part);
  model->initialize(InitialDraws(seed).within([&](const std::string& name) {
    const auto found = slices.find(name);
    return found == slices.end() ? nullptr : &found->second;
  }));
  return model;
}

}  // namespace penstock
