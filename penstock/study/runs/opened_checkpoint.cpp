#include "penstock/study/runs/opened_checkpoint.h"

#include "penstock/models/files/model_directory.h"
#include "penstock/ops/dispatch.h"
#include "penstock/study/runs/run_folder.h"
#include "penstock/train/read_recipe.h"

namespace penstock::study {

std::shared_ptr<LanguageModel> OpenedCheckpoint::model() const {
  auto out = load_model(info.directory.string());
  out->to(at::Device(recipe.run.device));
  return out;
}

OpenedCheckpoint open_checkpoint(const ConfigNode& node, const std::string& run_directory,
                                 RunCheckpoint which) {
  Recipe recipe = read_recipe(node);
  ops::set_threads(static_cast<int>(recipe.run.threads));
  CheckpointInfo info = find_checkpoint(run_directory, which);
  Corpus corpus = Corpus::open(recipe.data.corpus);
  const Split split = measured_split(corpus);
  return {.recipe = std::move(recipe),
          .info = std::move(info),
          .corpus = std::move(corpus),
          .split = split};
}

}  // namespace penstock::study
