#include "penstock/cli/model_argument.h"

#include <filesystem>

#include "penstock/base/error.h"
#include "penstock/train/checkpoint_manifest.h"
#include "penstock/train/checkpoints.h"

namespace penstock {

std::string model_argument(const std::string& path) {
  namespace fs = std::filesystem;
  PENSTOCK_CHECK(fs::is_directory(path), path, ": no such folder; give a model or a run directory");
  if (fs::exists(fs::path(path) / "config.json")) {
    // A checkpoint can tell damage; a model from elsewhere has no manifest.
    if (fs::exists(fs::path(path) / kManifestName))
      verify_checkpoint(real_file_system(), path, true);
    return path;
  }
  PENSTOCK_CHECK(fs::is_directory(fs::path(path) / "checkpoints"), path,
                 ": holds neither config.json nor checkpoints; give a model or a run directory");
  CheckpointStore store(real_file_system(), path);
  CheckpointSearch search = store.best();
  if (!search.found) search = store.latest();
  PENSTOCK_CHECK(search.found, path, ": has no complete checkpoint yet");
  return search.found->directory.string();
}

}  // namespace penstock
