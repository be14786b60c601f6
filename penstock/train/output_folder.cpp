#include "penstock/train/output_folder.h"

#include <utility>

#include "penstock/base/error.h"

namespace penstock {

void check_output_folder(FileSystem& files, const std::string& folder, std::string_view written) {
  // A study's runs have config.toml, and so may a folder of recipes.
  static constexpr std::pair<const char*, std::string_view> kMarks[] = {
      {"corpus.json", "corpus"},
      {"config.json", "model"},
      {"results.json", kStudyFolder},
      {"metrics.jsonl", kRunFolder},
      {"checkpoints", kRunFolder}};
  for (const auto& [name, held] : kMarks)
    PENSTOCK_CHECK(held == written || !files.exists(folder + "/" + name), folder, ": holds a ",
                   held, " (", name, "); choose another folder for a ", written);
}

}  // namespace penstock
