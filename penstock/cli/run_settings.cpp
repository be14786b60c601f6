#include "penstock/cli/run_settings.h"

#include <filesystem>

#include "penstock/io/toml.h"
#include "penstock/train/read_recipe.h"

namespace penstock {

std::optional<Recipe> run_settings(const std::string& model_directory) {
  namespace fs = std::filesystem;
  const fs::path checkpoint = fs::absolute(model_directory).lexically_normal();
  const fs::path checkpoints =
      checkpoint.has_filename() ? checkpoint.parent_path() : checkpoint.parent_path().parent_path();
  const fs::path config = checkpoints.parent_path() / "config.toml";
  if (checkpoints.filename() != "checkpoints" || !fs::exists(config)) return std::nullopt;
  return read_recorded_recipe(read_toml(config.string()));
}

}  // namespace penstock
