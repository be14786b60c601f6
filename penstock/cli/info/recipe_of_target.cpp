#include "penstock/cli/info/recipe_of_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "penstock/base/config_origin.h"
#include "penstock/base/error.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/data/corpus/corpus.h"
#include "penstock/finetune/run_record.h"
#include "penstock/io/toml.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/model_source.h"
#include "penstock/train/read_recipe.h"

namespace penstock {
namespace {

/// Why the weights in a model's folder do not fit its config; "" where they fit or are missing.
std::string why_weights_do_not_fit(const std::string& directory) {
  if (!std::filesystem::is_directory(directory)) return "";
  const std::filesystem::directory_iterator files(directory);
  if (std::ranges::none_of(files, [](const auto& file) {
        return file.path().extension() == ".safetensors" &&
               !file.path().filename().string().starts_with("optimizer");
      }))
    return "";
  try {
    open_model_source(directory);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

CountableRecipe countable(const ConfigNode& node, ContentHashes& hashes) {
  CountableRecipe out{.recipe = read_recipe(node)};
  // Without a hash the recipe accepts any model, and the figures are those of its config.
  if (!out.recipe.train.init_hash.empty())
    out.recipe =
        naming_origins(node, [&] { return with_initial_hash(std::move(out.recipe), hashes); });
  std::int64_t& vocab = out.recipe.model.vocab;
  if (vocab > 0) return out;
  std::error_code none;
  const std::string& corpus = out.recipe.data.corpus;
  out.assumed = corpus.empty() || !std::filesystem::exists(corpus + "/corpus.json", none);
  vocab = out.assumed ? kAssumedVocabulary : Corpus::open(corpus).vocab_size();
  return out;
}

void print_assumed_vocabulary() {
  fmt::print("note: counted with a vocabulary of {}; the corpus decides (--set model.vocab=N)\n",
             kAssumedVocabulary);
}

Recipe recipe_of_model(const std::string& target) {
  const std::string directory = model_argument(target).path, run = target + "/config.toml";
  Recipe recipe;
  const bool trained =
      directory != target && std::filesystem::exists(run) && !is_finetuning(target);
  if (trained) recipe = read_recorded_recipe(read_toml(run));
  recipe.model = read_model_config(directory);
  if (!trained) {
    if (recipe.model.context > 0) recipe.train.sequence_length = recipe.model.context;
    recipe.train.micro_batch = 1;
  }
  if (is_finetuning(target)) return recipe;  // its folder also holds a classification head
  if (const auto why = why_weights_do_not_fit(directory); !why.empty())
    recipe.notes.push_back("counted by its config, which its weights do not fit: " + why);
  return recipe;
}

}  // namespace penstock
