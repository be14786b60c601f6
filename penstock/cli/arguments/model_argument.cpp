#include "penstock/cli/arguments/model_argument.h"

#include <cstdio>
#include <filesystem>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/data/corpus/corpus.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/files/stored_model.h"
#include "penstock/routers/as_trained.h"
#include "penstock/train/checkpoints/checkpoint_manifest.h"
#include "penstock/train/checkpoints/chosen_checkpoint.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// ", or its file PATH" with the first model file in the folder; "" where it holds none.
std::string or_its_file(const fs::path& folder) {
  for (const std::string& name : real_file_system().list(folder))
    if (is_model_file(name) && fs::is_regular_file(folder / name))
      return concat(", or its file ", (folder / name).string());
  return "";
}

ModelArgument from_run(const std::string& path) {
  PENSTOCK_CHECK(!fs::exists(fs::path(path) / kManifestFile), path,
                 ": is a corpus, not a model; give a model or a run directory");
  PENSTOCK_CHECK(is_run_directory(path), path,
                 ": is a folder that holds neither config.json nor checkpoints; give a model or a "
                 "run directory",
                 or_its_file(path));
  const CheckpointSearch search = chosen_checkpoint(real_file_system(), path);
  for (const auto& sentence : search.ignored)
    std::fprintf(stderr, "passed over: %s\n", sentence.c_str());
  return {.path = search.found->directory.string(), .step = search.found->step};
}

}  // namespace

void note_removed(const ModelArgument& model) {
  std::fprintf(stderr,
               "note: %s was removed while it was read, by the training that goes on there; "
               "choosing again\n",
               model.path.c_str());
}

ModelArgument model_argument(const std::string& path) {
  if (is_model_file(path) && fs::is_regular_file(path)) return {.path = path};
  PENSTOCK_CHECK(!path.empty(),
                 "the model's path is empty; give a model directory, a run directory, ",
                 kModelFiles);
  PENSTOCK_CHECK(fs::is_directory(path), path,
                 fs::exists(path) ? ": is no model; " : ": no such folder; ",
                 "give a model directory, a run directory, ", kModelFiles);
  if (!fs::exists(fs::path(path) / "config.json")) return from_run(path);
  ModelArgument model{.path = path};
  if (const auto manifest = verify_model(real_file_system(), path)) model.step = manifest->step;
  return model;
}

std::shared_ptr<LanguageModel> load_for_inference(std::shared_ptr<const ModelSource> source,
                                                  Weights weights) {
  return load_for_evaluation(std::move(source), /*as_trained=*/false, weights);
}

std::shared_ptr<LanguageModel> load_for_evaluation(std::shared_ptr<const ModelSource> source,
                                                   bool as_trained, Weights weights) {
  ModelConfig config = source->config();
  if (as_trained) config.router = penstock::as_trained(config.router);
  if (weights == Weights::as_f32) return load_model(*source, config);
  return open_model(
      std::move(source), config,
      weights == Weights::in_place_int8 ? ops::Activations::int8 : ops::Activations::f32);
}

}  // namespace penstock
