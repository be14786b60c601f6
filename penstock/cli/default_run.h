// The run directory of a recipe if `--out` is not given.
#pragma once

#include <filesystem>
#include <string>

namespace penstock {

/// runs/NAME for the recipe NAME.toml, in the current folder.
inline std::string default_run(const std::string& recipe) {
  return "runs/" + std::filesystem::path(recipe).stem().string();
}

}  // namespace penstock
