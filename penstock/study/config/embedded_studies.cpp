#include "penstock/study/config/embedded_studies.h"

#include <filesystem>

#include "penstock/base/error.h"
#include "penstock/study/config/embedded_files.h"

namespace penstock::study {
namespace {

/// Where the files lie in the source tree, as errors name them.
std::filesystem::path source_path(const EmbeddedFile& file) {
  return std::filesystem::path("recipes") / file.name;
}

ConfigNode read_embedded(const std::string& path) {
  const auto wanted = std::filesystem::path(path).lexically_normal();
  for (const EmbeddedFile& file : embedded_files())
    if (source_path(file) == wanted) return parse_toml(std::string(file.text), wanted.string());
  fail(path, ": is not part of the library");
}

bool has_paper_scale(const ConfigNode& root) {
  const ConfigNode* const scales = root.find("scale");
  return scales && scales->find("paper");
}

}  // namespace

StudyConfig study_of_closed_form(const std::string& name) {
  std::string names;
  for (const EmbeddedFile& file : embedded_files()) {
    const std::string path = source_path(file).string();
    const ConfigNode root = read_embedded(path);
    const ConfigNode* const forms = root.find("closed_form");
    if (!forms) continue;
    if (forms->find(name))
      return read_study(path, {}, has_paper_scale(root) ? "paper" : "", read_embedded);
    for (const auto& [other, node] : forms->table()) names += (names.empty() ? "" : ", ") + other;
  }
  fail("there is no table '", name, "' in closed form; choose from: ", names);
}

}  // namespace penstock::study
