#include "penstock/train/initial_model.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <string>

#include "penstock/base/error.h"
#include "penstock/layers/moe.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/files/same_tokenizer.h"
#include "penstock/models/formats/rank_slices.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/make_model.h"
#include "penstock/train/seed_streams.h"

namespace penstock {

std::shared_ptr<LanguageModel> initial_model(const Recipe& recipe, const ModelPlace& place) {
  if (recipe.train.init_from.empty())
    return make_model(recipe.model, seed_bits(recipe.train, SeedStream::model), place);
  auto whole = load_model(*open_model_source(recipe.train.init_from), recipe.model);
  const auto slices = model_slices(whole->config(), place.part);
  auto out = make_model(recipe.model, place);
  if (held_tensors(*out).size() == held_tensors(*whole).size() &&
      std::ranges::all_of(slices, [](const auto& item) { return item.second.whole(); }))
    return whole;
  const std::map<std::string, at::Tensor> tensors = held_tensors(*whole);
  const torch::NoGradGuard no_grad;
  for (auto& [name, part] : held_tensors(*out)) part.copy_(take(tensors.at(name), slices.at(name)));
  return out;
}

Recipe with_vocabulary(Recipe recipe, const Corpus& corpus) {
  if (!recipe.train.init_from.empty())
    check_same_tokenizer(*open_model_source(recipe.train.init_from), corpus);
  if (recipe.model.vocab == 0) recipe.model.vocab = corpus.vocab_size();
  PENSTOCK_CHECK(recipe.model.vocab >= corpus.vocab_size(), "model.vocab = ", recipe.model.vocab,
                 " is smaller than the corpus's ", corpus.vocab_size(), " (", corpus.path(),
                 "); raise it, or set it to 0 to take the corpus's");
  recipe.model = recipe.model.resolved();  // checks keys that depend on the vocabulary
  return recipe;
}

LrScale router_lr_scale(const Recipe& recipe, LanguageModel& model) {
  const double scale = recipe.model.router.lr_scale;
  if (scale == 1) return {};
  return [scale, names = router_parameters(model, model.moe_layers())](const std::string& name) {
    return names.contains(name) ? scale : 1.0;
  };
}

}  // namespace penstock
