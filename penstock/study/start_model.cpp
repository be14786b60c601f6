#include "penstock/study/start_model.h"

#include <fmt/format.h>

#include <filesystem>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/convert/upcycle.h"
#include "penstock/models/model_directory.h"
#include "penstock/models/model_source.h"
#include "penstock/ops/dispatch.h"
#include "penstock/study/measure_run.h"
#include "penstock/train/recipe.h"

namespace penstock::study {
namespace {

namespace fs = std::filesystem;

/// A run's folder means its newest checkpoint.
std::string model_of(const std::string& path) {
  return fs::is_directory(fs::path(path) / "checkpoints")
             ? find_checkpoint(path, "final").directory.string()
             : path;
}

/// Config, weights and tokenizer; not what a checkpoint has besides, which is for resuming.
void copy_model(const fs::path& from, const fs::path& to) {
  PENSTOCK_CHECK(fs::is_directory(from), from.string(),
                 ": training begins with a model directory; this is none");
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name != "optimizer.safetensors" && name != "trainer.json" &&
        name != "manifest.json")
      fs::copy_file(entry.path(), to / name, fs::copy_options::overwrite_existing);
  }
  read_model_config(to.string());  // that it is one
}

/// The keys of a variant's `upcycle`, those of `penstock upcycle`.
struct UpcycleFields {
  UpcycleOptions options;
  std::string start = "published";
  template <class V>
  void visit(V& v) {
    v("method", options.method, {.help = "a routing method"});
    v("scorer", options.scorer, {.help = "scorer in place of the method's"});
    v("experts", options.experts, {.help = "experts, before granularity", .min = 1});
    v("k", options.k, {.help = "active experts, before granularity", .min = 0});
    v("start", start,
      {.help = "published: gates and first logits as the method's paper has them; parent: the "
               "default of `penstock upcycle`",
       .choices = {"published", "parent"}});
    v("renormalise", options.renormalise, {.help = "gates of the chosen experts sum to one"});
    v("granularity", options.granularity, {.help = "shards of the feed-forward", .min = 1});
    v("noise", options.noise, {.help = "standard deviation added to experts", .min = 0});
    v("shared_width", options.shared_width, {.help = "width of a shared expert", .min = 0});
    v("routers", options.routers, {.help = "m; 0: as experts", .min = 0});
    v("keys", options.keys, {.help = "0: the larger of routers and experts", .min = 0});
    v("pool", options.pool, {.help = "sum or max; empty: the method's"});
    v("collapsed", options.collapsed, {.help = "train the matrix that the mixture folds into"});
    v("calibration", options.calibration, {.help = "text; empty: the recipe's corpus"});
    v("calibration_tokens", options.calibration_tokens, {.help = "of that text", .min = 1});
    v("calibration_window", options.calibration_window,
      {.help = "tokens; 0: the context, at most 512", .min = 0});
    v("keys_after_rope", options.keys_after_rope, {.help = "mean keys as rotated"});
    v("key_bias", options.key_bias, {.help = "mean keys with their bias"});
    v("query_bias", options.query_bias, {.help = "query maps with their bias"});
    v("match_logits", options.match_logits,
      {.help = "random, with Router Upcycling's logit scale"});
    v("match_lr", options.match_lr, {.help = "with the learning rate that its factors come to"});
    v("start_entropy", options.start_entropy,
      {.help = "nats of the routers' softmax at the start; 0: as `start` says", .min = 0});
    v("lr_scale", options.lr_scale, {.help = "of the routers' learning rate", .min = 0});
    v.rest(tables, "router: laid over the result's [model.router]");
  }
  std::map<std::string, ConfigNode> tables;
};

UpcycleOptions read_upcycle_options(const ConfigNode& upcycle, const std::string& below) {
  auto fields = read_config<UpcycleFields>(upcycle, below);
  for (const auto& [name, table] : fields.tables) {
    PENSTOCK_CHECK(name == "router", table.origin(), ": unknown key '", below, ".", name,
                   "'; the only table here is router");
    fields.options.router_options = table;
  }
  if (fields.start == "parent") fields.options.start = UpcycleStart::parent;
  return fields.options;
}

}  // namespace

void check_upcycle(const ConfigNode& upcycle, const std::string& below) {
  read_upcycle_options(upcycle, below);
}

void begin_with(const std::string& model, const ConfigNode& upcycle, const ConfigNode& resolved,
                const std::string& directory, std::FILE* progress) {
  if (upcycle.empty()) return copy_model(model_of(model), directory);
  const Recipe recipe = read_recipe(resolved);
  ops::set_threads(static_cast<int>(recipe.run.threads));
  UpcycleOptions options = read_upcycle_options(upcycle, "upcycle");
  options.seed = static_cast<std::uint64_t>(recipe.train.seed);
  if (options.calibration.empty()) options.calibration = recipe.data.corpus;
  const UpcycleReport report = penstock::upcycle(*open_model_source(model_of(model)), options,
                                                 real_file_system(), directory);
  if (progress && report.lr_scale != 1)
    fmt::print(progress, "  learning rate of the routers x {:.4g}\n", report.lr_scale);
}

}  // namespace penstock::study
