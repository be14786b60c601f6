// From a run's folder to its figures by k.
#include "penstock/study/measure_run.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/eval/by_k.h"
#include "penstock/models/fold_routers.h"
#include "penstock/models/model_directory.h"
#include "penstock/ops/dispatch.h"
#include "penstock/train/checkpoints.h"
#include "penstock/train/evaluation_settings.h"

namespace penstock::study {

CheckpointInfo find_checkpoint(const std::string& run_directory, const std::string& which) {
  CheckpointStore store(real_file_system(), run_directory);
  const CheckpointSearch search = which == "best" ? store.best() : store.latest();
  PENSTOCK_CHECK(search.found, run_directory, ": has no whole ", which,
                 " checkpoint to measure by k",
                 search.ignored.empty() ? "" : ": " + search.ignored.front());
  return *search.found;
}

Split measured_split(const Corpus& corpus) {
  return corpus.count(Split::kTest).tokens > 1 ? Split::kTest : Split::kValidation;
}

std::vector<std::int64_t> wanted_k(const ConfigNode& resolved,
                                   std::span<const std::int64_t> eval_k) {
  const ModelConfig config = read_recipe(resolved).model;
  if (!why_no_k(config).empty()) return {0};
  std::vector<std::int64_t> out;
  for (const std::int64_t k : eval_k)
    if (takes_k(config, k)) out.push_back(k);
  return out;
}

MeasuredK measure_run(const ConfigNode& resolved, const std::string& run_directory,
                      std::span<const std::int64_t> values, const std::string& checkpoint,
                      bool folded, std::FILE* progress) {
  const Recipe recipe = read_recipe(resolved);
  ops::set_threads(static_cast<int>(recipe.run.threads));
  const CheckpointInfo info = find_checkpoint(run_directory, checkpoint);
  auto model = load_model(info.directory.string());
  if (folded) model = fold_routers(*model);
  model->to(at::Device(recipe.run.device));
  const Corpus corpus = Corpus::open(recipe.data.corpus);
  const Split split = measured_split(corpus);
  MeasuredK out{
      .checkpoint = checkpoint, .step = info.step, .split = std::string(split_name(split))};
  if (why_no_k(model->config()).empty()) out.trained_k = model->config().active_experts();
  ProgressLine line(progress);
  for (const std::int64_t k : values) {
    const auto show = [&](double done, const LossTotals& totals) {
      if (line.due())
        line.show(fmt::format("{}{:3.0f}%  bits per byte {:.4f}",
                              k > 0 ? fmt::format("k={}  ", k) : "", 100 * done,
                              totals.bits_per_byte()));
    };
    EvaluateOptions options = final_evaluation(recipe, split);
    options.progress = show;
    out.points.push_back(evaluate_at_k(*model, corpus, options, k).figures);
  }
  line.finish();
  return out;
}

}  // namespace penstock::study
