#include "penstock/cli/model_argument.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "penstock/base/error.h"
#include "penstock/models/model_source.h"
#include "penstock/train/checkpoint_manifest.h"
#include "penstock/train/checkpoints.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

ModelArgument from_run(const std::string& path) {
  PENSTOCK_CHECK(fs::is_directory(fs::path(path) / "checkpoints"), path,
                 ": holds neither config.json nor checkpoints; give a model or a run directory");
  CheckpointStore store(real_file_system(), path);
  CheckpointSearch search = store.best();
  if (!search.found) {
    // The newest is judged anew; what only the first search looked into is said as well.
    CheckpointSearch newest = store.latest();
    for (const auto& sentence : newest.ignored)
      if (std::ranges::find(search.ignored, sentence) == search.ignored.end())
        search.ignored.push_back(sentence);
    search.found = newest.found;
  }
  for (const auto& sentence : search.ignored)
    std::fprintf(stderr, "passed over: %s\n", sentence.c_str());
  PENSTOCK_CHECK(search.found || search.ignored.empty(), path,
                 ": no checkpoint is whole; train again, into another --out");
  PENSTOCK_CHECK(search.found, path, ": has no complete checkpoint yet");
  return {.path = search.found->directory.string(), .step = search.found->step};
}

}  // namespace

ModelArgument model_argument(const std::string& path) {
  if (is_model_file(path) && fs::is_regular_file(path)) return {.path = path};
  PENSTOCK_CHECK(
      fs::is_directory(path), path, fs::exists(path) ? ": is no model; " : ": no such folder; ",
      "give a model directory, a llama2.c checkpoint (.bin), a GGUF file or a run directory");
  if (!fs::exists(fs::path(path) / "config.json")) return from_run(path);
  // A checkpoint can tell damage; a model from elsewhere has no manifest.
  ModelArgument model{.path = path};
  if (fs::exists(fs::path(path) / kManifestName))
    model.step = verify_checkpoint(real_file_system(), path, true).step;
  return model;
}

}  // namespace penstock
