#include "penstock/train/initial_model.h"

#include <string>

#include "penstock/base/error.h"
#include "penstock/layers/moe.h"
#include "penstock/models/files/chat_template.h"
#include "penstock/models/files/generation_files.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/files/same_tokenizer.h"
#include "penstock/models/make_model.h"
#include "penstock/train/seed_streams.h"

namespace penstock {

std::shared_ptr<LanguageModel> initial_model(const Recipe& recipe, const ModelPlace& place) {
  if (recipe.train.init_from.empty())
    return make_model(recipe.model, seed_bits(recipe.train, SeedStream::model), place);
  return load_model(*open_model_source(recipe.train.init_from), recipe.model, place);
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

std::map<std::string, std::string> checkpoint_files(const Recipe& recipe, const Corpus& corpus) {
  std::map<std::string, std::string> out = corpus.tokenizer().files();
  const std::string& model = recipe.train.init_from;
  if (model.empty() || !check_same_tokenizer(*open_model_source(model), corpus)) return out;
  out.merge(chat_template_files(chat_template_of(model), out));
  out.merge(generation_files(model, recipe.model.vocab));
  return out;
}

std::string initial_tokenizer_note(const Recipe& recipe) {
  const std::string& model = recipe.train.init_from;
  if (model.empty()) return "";
  try {
    open_model_source(model)->tokenizer();
    return "";
  } catch (const Error& error) {
    return concat("train.init_from: no tokenizer of the model opens (", error.what(),
                  "); its ids are taken to be those of data.corpus");
  }
}

LrScale router_lr_scale(const Recipe& recipe, LanguageModel& model) {
  const double scale = recipe.model.router.lr_scale;
  if (scale == 1) return {};
  return [scale, names = router_parameters(model, model.moe_layers())](const std::string& name) {
    return names.contains(name) ? scale : 1.0;
  };
}

}  // namespace penstock
