#include "penstock/train/read_recipe.h"

#include <algorithm>
#include <utility>

#include "penstock/base/config_origin.h"
#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/eval/by_k.h"
#include "penstock/eval/perplexity.h"
#include "penstock/io/toml.h"
#include "penstock/models/files/open_model.h"
#include "penstock/routers/coefficients.h"
#include "penstock/train/check_is_recipe.h"
#include "penstock/train/checkpoints/checkpoint_manifest.h"
#include "penstock/train/checkpoints/chosen_checkpoint.h"
#include "penstock/train/run_identity.h"
#include "penstock/train/unread_settings.h"

namespace penstock {
namespace {

/// Refuses a method that would silently have no effect because another file names all parts.
void check_method_counts(const ConfigNode& router) {
  const ConfigNode* method = router.find("method");
  if (!method) return;
  for (const char* part : {"scorer", "selector", "balancers"}) {
    const ConfigNode* node = router.find(part);
    const auto* name = node ? std::get_if<std::string>(&node->value()) : nullptr;
    if (!node || (name && name->empty()) || node->file() == method->file()) return;
  }
  fail(
      "model.router.method would change nothing here: model.router.scorer, model.router.selector "
      "and model.router.balancers are all named; change those too, or begin with the recipe that "
      "names only a method");
}

/// Completes the order of the data and the streams of evaluation.
void complete_streams(Recipe& recipe, const ConfigNode& node) {
  const bool carries = recipe.model.has_memory();
  const ConfigNode* data = node.find("data");
  if (carries && !(data && data->find("sampling"))) recipe.data.sampling = Sampling::kStreams;
  if (recipe.train.evaluation.streams < 0)
    recipe.train.evaluation.streams = usual_streams(recipe.model);
  PENSTOCK_CHECK(
      !recipe.data.isolate_documents || (!carries && recipe.train.evaluation.streams == 0),
      "data.isolate_documents does not go with memory carried over documents' borders "
      "(transformer-xl, train.eval_streams)");
}

/// Replaces a run in train.init_from by its best checkpoint.
void take_checkpoint_of_run(Recipe& recipe) {
  std::string& model = recipe.train.init_from;
  if (!is_run_directory(model)) return;
  const CheckpointSearch chosen = chosen_checkpoint(real_file_system(), model);
  for (const auto& sentence : chosen.ignored) recipe.notes.push_back("passed over: " + sentence);
  const std::string directory = chosen.found->directory.string();
  recipe.notes.push_back(concat("train.init_from = ", model, " is a run; training begins with its ",
                                chosen.found->validation_loss ? "best" : "newest", " checkpoint, ",
                                directory));
  model = directory;
}

/// For errors: a list of the keys that may change.
std::string coefficients_text(const RouterConfig& router) {
  const std::string keys = joined(coefficient_keys(router));
  return keys.empty() ? "" : "; of this model's keys only these may change: " + keys;
}

/// Returns what `read` reads of the initial model. Errors name the key.
template <class Read>
auto of_initial_model(const Recipe& recipe, const Read& read) {
  try {
    return read(recipe.train.init_from);
  } catch (const Error& error) {
    fail("train.init_from: ", error.what());
  }
}

/// Replaces [model] by the config of the model that training starts from. [model] may change
/// coefficients of the router's parts and nothing else.
void take_initial_model(Recipe& recipe, const ConfigNode& node) {
  TrainConfig& train = recipe.train;
  if (train.init_from.empty()) {
    train.init_hash.clear();
    return;
  }
  Recipe given{.model = of_initial_model(
                   recipe, [](const std::string& path) { return read_model_config(path); })};
  if (const ConfigNode* model = node.find("model")) {
    ConfigNode merged = written_out(given), over;
    over.set("model", *model);
    merged.merge(over);
    Recipe asked = read_config<Recipe>(merged);
    if (asked.model.vocab == 0) asked.model.vocab = given.model.vocab;
    if (asked.model.context == 0) asked.model.context = given.model.context;
    asked.model = asked.model.resolved();
    const RouterConfig own = given.model.router;
    if (given.model.moe_layers() > 0)
      given.model.router = with_coefficients(own, asked.model.router);
    const std::string other = difference(given, asked);
    PENSTOCK_CHECK(other.empty(), "train.init_from = ", train.init_from,
                   ": the recipe's [model] contradicts the model's own config (", other,
                   "); leave those keys away", coefficients_text(own));
  }
  recipe.model = given.model;
}

/// Refuses a router that no layer uses: that is a contradiction, not a dense model.
void check_layers_with_experts(const ModelConfig& model) {
  PENSTOCK_CHECK(resolve(model.router).dense() || model.moe_layers() > 0,
                 "model.moe.first_layers = ", model.moe.first_layers,
                 " leaves no layer with experts (model.moe.dense_layers = ", model.moe.dense_layers,
                 "); give a larger number of layers, -1 for all, or model.router.method = "
                 "\"dense\"");
}

/// Completes what was left open and checks fields against each other.
void complete(Recipe& recipe, const ConfigNode& node) {
  TrainConfig& train = recipe.train;
  if (recipe.data.corpus.empty() && !recipe.data.corpora.empty())
    recipe.data.corpus = recipe.data.corpora.front().path;
  if (train.micro_batch == 0) train.micro_batch = train.batch_sequences;
  PENSTOCK_CHECK(train.batch_sequences % train.micro_batch == 0,
                 "train.batch_sequences = ", train.batch_sequences,
                 " is not a multiple of train.micro_batch = ", train.micro_batch);
  train.optimizer.complete(train.steps, "train.");
  if (recipe.model.context == 0) recipe.model.context = train.sequence_length;
  if (train.evaluation.sequence_length == 0)
    train.evaluation.sequence_length = train.sequence_length;
  complete_streams(recipe, node);
  const ConfigNode* model = node.find("model");
  const ConfigNode* router = model ? model->find("router") : nullptr;
  if (router) check_method_counts(*router);
  PENSTOCK_CHECK(recipe.model.moe.experts < 2 || !train.init_from.empty() ||
                     (router && (router->find("method") || router->find("scorer"))),
                 "model.moe.experts = ", recipe.model.moe.experts,
                 " without model.router.method; name a method (`penstock routers`), or \"dense\"");
  // A vocabulary of 0 stays open until the corpus is known.
  const std::int64_t vocab = recipe.model.vocab;
  if (vocab == 0) recipe.model.vocab = 1;
  recipe.model = recipe.model.resolved();
  recipe.model.vocab = vocab;
  if (train.eval_k == 0) return;
  const std::string reason = why_no_k(recipe.model);
  PENSTOCK_CHECK(reason.empty(), "train.eval_k = ", train.eval_k, ": ", reason,
                 "; leave it at 0, which validates with the model's own experts per token");
  PENSTOCK_CHECK(takes_k(recipe.model, train.eval_k), "train.eval_k = ", train.eval_k,
                 " is not from 1 to ", most_k(recipe.model),
                 ", the most experts that a token of this router may ask for");
}

enum class Kind { asked, recorded };

Recipe read_recipe(const ConfigNode& node, Kind kind) {
  check_is_recipe(node);
  const Recipe asked = read_config<Recipe>(node);
  Recipe recipe = asked;
  naming_origins(node, [&] {
    if (kind == Kind::asked) {
      take_checkpoint_of_run(recipe);
      take_initial_model(recipe, node);
    }
    complete(recipe, node);
    check_layers_with_experts(recipe.model);
  });
  for (auto& note : unread_settings(asked, recipe, kind == Kind::asked))
    recipe.notes.push_back(std::move(note));
  for (auto& note : recipe.notes) note = with_origins(node, note);
  return recipe;
}

}  // namespace

bool may_differ_from_initial_model(const std::string& key) {
  const std::string table = "model.router.";
  const auto end = key.rfind('.');
  if (!key.starts_with(table) || end < table.size()) return false;
  const auto options = coefficients(key.substr(table.size(), end - table.size()));
  return std::ranges::find(options, key.substr(end + 1)) != options.end();
}

Recipe with_initial_hash(Recipe recipe) {
  if (!recipe.train.init_from.empty())  // else a damaged checkpoint would train silently
    of_initial_model(
        recipe, [](const std::string& path) { return verify_model(real_file_system(), path); });
  ContentHashes hashes;
  return with_initial_hash(std::move(recipe), hashes);
}

Recipe with_initial_hash(Recipe recipe, ContentHashes& hashes) {
  TrainConfig& train = recipe.train;
  if (train.init_from.empty()) return recipe;
  const std::string hash =
      of_initial_model(recipe, [&](const std::string& path) { return hashes.of(path); });
  PENSTOCK_CHECK(train.init_hash.empty() || train.init_hash == hash,
                 "train.init_from = ", train.init_from, " is another model (", hash,
                 ") than train.init_hash = ", train.init_hash, "; put that one back");
  train.init_hash = hash;
  return recipe;
}

Recipe read_recipe(const ConfigNode& node) { return read_recipe(node, Kind::asked); }

Recipe read_recorded_recipe(const ConfigNode& node) { return read_recipe(node, Kind::recorded); }

Recipe recorded_recipe(const std::string& path) {
  try {
    return read_recorded_recipe(read_toml(path));
  } catch (const Error& error) {
    fail(error.what(), " (damaged since the run wrote it? put it back, or choose another folder)");
  }
}

}  // namespace penstock
