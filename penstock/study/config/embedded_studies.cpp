#include "penstock/study/config/embedded_studies.h"

#include <filesystem>

#include "penstock/base/error.h"

namespace penstock::study {
namespace {

/// The file's path in the source tree, for errors.
std::filesystem::path source_path(const EmbeddedFile& file) {
  return std::filesystem::path("recipes") / file.name;
}

ConfigNode read_embedded(const EmbeddedFile& file) {
  return parse_toml(std::string(file.text), source_path(file).string());
}

ConfigNode read_embedded(std::span<const EmbeddedFile> files, const std::string& path) {
  const auto wanted = std::filesystem::path(path).lexically_normal();
  for (const EmbeddedFile& file : files)
    if (source_path(file) == wanted) return read_embedded(file);
  fail(path, ": is not part of the library");
}

bool has_paper_scale(const ConfigNode& root) {
  const ConfigNode* const scales = root.find("scale");
  return scales && scales->find("paper");
}

}  // namespace

StudyConfig study_of_closed_form(const std::string& name, std::span<const EmbeddedFile> files) {
  std::string names, path, scale, where;
  for (const EmbeddedFile& file : files) {
    const ConfigNode root = read_embedded(file);
    const ConfigNode* const forms = root.find("closed_form");
    if (!forms) continue;
    for (const auto& [other, node] : forms->table()) names += (names.empty() ? "" : ", ") + other;
    const ConfigNode* const form = forms->find(name);
    if (!form) continue;
    PENSTOCK_CHECK(path.empty(), where, " and ", form->origin(),
                   ": both have a table [closed_form.", name,
                   "]; rename one, or see either by `penstock study FILE`");
    path = source_path(file).string();
    scale = has_paper_scale(root) ? "paper" : "";
    where = form->origin();
  }
  PENSTOCK_CHECK(!path.empty(), "there is no table '", name,
                 "' in closed form; choose from: ", names);
  return read_study(path, {}, scale,
                    [&](const std::string& each) { return read_embedded(files, each); });
}

}  // namespace penstock::study
