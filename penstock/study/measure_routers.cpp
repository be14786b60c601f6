#include "penstock/study/measure_routers.h"

#include <fmt/format.h>

#include "penstock/analysis/analysis.h"
#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/models/model_directory.h"
#include "penstock/ops/dispatch.h"
#include "penstock/study/measure_run.h"
#include "penstock/train/recipe.h"
#include "penstock/train/trainer.h"

namespace penstock::study {

RouterReport measure_routers(const ConfigNode& resolved, const std::string& run_directory,
                             const std::string& checkpoint, std::FILE* progress) {
  Recipe recipe = read_recipe(resolved);
  ops::set_threads(static_cast<int>(recipe.run.threads));
  const CheckpointInfo info = find_checkpoint(run_directory, checkpoint);
  const Corpus corpus = Corpus::open(recipe.data.corpus);
  const Split split = measured_split(corpus);
  RouterReport out{
      .checkpoint = checkpoint, .step = info.step, .split = std::string(split_name(split))};
  recipe.model = read_model_config(info.directory.string());  // with the corpus's vocabulary
  if (recipe.model.moe_layers() == 0) {
    out.refused = "a dense model has no routers";
    return out;
  }
  out.refused = analysis::refusals(recipe.model).entropy;
  if (!out.refused.empty()) return out;
  ProgressLine line(progress);
  const auto measured = [&](LanguageModel& model, const char* what) {
    return analysis::measure(model, corpus,
                             {.split = split,
                              .max_tokens = recipe.train.final_eval_tokens,
                              .sequence_length = recipe.train.eval_sequence_length,
                              .streams = recipe.train.eval_streams,
                              .memory_length = recipe.train.eval_memory,
                              .progress = [&](double done) {
                                if (line.due())
                                  line.show(fmt::format("{} {:3.0f}%", what, 100 * done));
                              }});
  };
  const auto model = load_model(info.directory.string()), initial = initial_model(recipe);
  initial->eval();
  const analysis::ModelMeasures now = measured(*model, "routers"),
                                before = measured(*initial, "routers at step 0");
  line.finish();
  out.tokens = static_cast<double>(now.tokens);
  for (std::size_t l = 0; l < now.layers.size(); ++l) {
    const auto &entropy = *now.layers[l].entropy, &initially = *before.layers[l].entropy;
    out.layers.push_back({.mean = entropy.mean(),
                          .sd = entropy.sd(),
                          .initial_mean = initially.mean(),
                          .initial_sd = initially.sd()});
  }
  for (const auto& sample : analysis::sample_tokens(now.probe, 4))
    out.samples.push_back({.context = sample.context, .probabilities = sample.probabilities});
  return out;
}

}  // namespace penstock::study
