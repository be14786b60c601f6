#include "penstock/study/runs/start_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "penstock/base/config_origin.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/member_names.h"
#include "penstock/base/progress.h"
#include "penstock/convert/upcycle/upcycle.h"
#include "penstock/data/corpus/corpus.h"
#include "penstock/models/files/content_hash.h"
#include "penstock/models/files/open_model.h"
#include "penstock/ops/dispatch.h"
#include "penstock/study/runs/run_folder.h"
#include "penstock/train/checkpoints/checkpoint_manifest.h"
#include "penstock/train/read_recipe.h"

namespace penstock::study {
namespace {

namespace fs = std::filesystem;

/// The path of a model. For the folder of a run, it is the newest checkpoint. Throws Error if the
/// model is a checkpoint with a damaged file.
std::string model_of(const std::string& path) {
  if (fs::is_directory(fs::path(path) / "checkpoints"))
    return find_checkpoint(path, RunCheckpoint::final).directory.string();
  verify_model(real_file_system(), path);
  return path;
}

/// Copies config, weights and tokenizer, but not the files of a checkpoint that only resuming
/// needs.
void copy_model(const fs::path& from, const fs::path& to) {
  PENSTOCK_CHECK(fs::is_directory(from), from.string(),
                 ": training begins with a model directory; this is none");
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    const bool moments = name.starts_with("optimizer") && name.ends_with(".safetensors");
    const bool note =
        name.starts_with("piece-");  // a rank's, which a network file system may show late
    if (entry.is_regular_file() && !moments && !note && name != "trainer.json" &&
        name != "manifest.json")
      fs::copy_file(entry.path(), to / name, fs::copy_options::overwrite_existing);
  }
  read_model_config(to.string());  // throws unless it is a model
}

/// A message about upcycling in which options have the names of the keys of a study's file.
std::string with_upcycle_keys(const std::string& message) {
  const auto fields = describe_config<UpcycleOptions>();
  return with_members(message, [&](const std::string& member) {
    const bool key = std::ranges::any_of(
        fields, [&](const FieldDescription& field) { return field.path == member; });
    return key ? "upcycle." + member : "";
  });
}

}  // namespace

void begin_with(const std::string& model, const ConfigNode& upcycle, const ConfigNode& resolved,
                const std::string& directory, const fs::path& key_folder, bool force,
                std::FILE* progress) {
  if (upcycle.empty()) return copy_model(model_of(model), directory);
  const Recipe recipe = read_recipe(resolved);
  ops::set_threads(static_cast<int>(recipe.run.threads));
  UpcycleOptions options = read_config<UpcycleOptions>(upcycle, "upcycle");
  options.seed = static_cast<std::uint64_t>(recipe.train.seed);
  options.force = force;
  if (options.calibration.empty()) options.calibration = recipe.data.corpus;
  ProgressLine line(progress);
  UpcycleReport report;
  try {
    report = penstock::upcycle(*open_model_source(model_of(model)), options, real_file_system(),
                               directory, KeyCache(real_file_system(), key_folder.string()),
                               shown_on(line));
  } catch (const Error& error) {  // add keys and lines of the study's file
    const std::string said = with_upcycle_keys(error.what());
    if (said == error.what()) throw;
    ConfigNode root{ConfigNode::Table{}};
    root.set("upcycle", upcycle);
    throw Error(with_origins(root, said));
  }
  line.finish();
  if (report.lr_scale != 1)
    print_line(progress, fmt::format("  learning rate of the routers x {:.4g}", report.lr_scale));
}

std::string text_content_hash(const std::string& text) {
  return fs::is_directory(text) ? Corpus::open(text).content_hash() : model_content_hash(text);
}

}  // namespace penstock::study
