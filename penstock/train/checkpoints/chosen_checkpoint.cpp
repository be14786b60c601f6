#include "penstock/train/checkpoints/chosen_checkpoint.h"

#include <algorithm>

namespace penstock {
namespace {

CheckpointSearch search_once(FileSystem& fs, const std::string& run_directory) {
  CheckpointStore store(fs, run_directory);
  CheckpointSearch search = store.best();
  if (search.found) return search;
  // latest() judges all checkpoints anew. Sentences that only the first search found are kept too.
  CheckpointSearch newest = store.latest();
  for (auto& sentence : newest.ignored)
    if (std::ranges::find(search.ignored, sentence) == search.ignored.end())
      search.ignored.push_back(std::move(sentence));
  search.found = std::move(newest.found);
  search.removed_meanwhile |= newest.removed_meanwhile;
  return search;
}

}  // namespace

bool is_run_directory(const std::string& path) {
  // An empty path names nothing, while "" / "checkpoints" is a folder of the current one.
  const std::filesystem::path folder(path);
  return !path.empty() && std::filesystem::is_directory(folder / "checkpoints") &&
         !std::filesystem::exists(folder / "config.json");
}

CheckpointSearch chosen_checkpoint(FileSystem& fs, const std::string& run_directory) {
  CheckpointSearch search = search_once(fs, run_directory);
  for (int choice = 1; !search.found && search.removed_meanwhile && choice < kMostChoices; ++choice)
    search = search_once(fs, run_directory);
  PENSTOCK_CHECK(search.found || search.ignored.empty(), run_directory,
                 ": no checkpoint is whole (", search.ignored.empty() ? "" : search.ignored.front(),
                 "); train again, into another folder");
  PENSTOCK_CHECK(search.found, run_directory, ": has no complete checkpoint yet");
  return search;
}

}  // namespace penstock
