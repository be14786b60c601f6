#include "penstock/study/start_model.h"

#include <filesystem>

#include "penstock/base/error.h"
#include "penstock/models/model_directory.h"
#include "penstock/study/measure_run.h"

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

}  // namespace

void begin_with(const std::string& model, const ConfigNode& upcycle, const ConfigNode& resolved,
                const std::string& directory, std::FILE* progress) {
  (void)resolved;
  (void)progress;
  PENSTOCK_CHECK(upcycle.empty(), "upcycle: this build cannot upcycle models");
  copy_model(model_of(model), directory);
}

}  // namespace penstock::study
