#include "penstock/study/runs/run_folder.h"

#include <filesystem>
#include <fstream>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/io/readable_json.h"

namespace penstock::study {
namespace {

std::string path_of(const std::string& run_directory, const char* name) {
  return (std::filesystem::path(run_directory) / name).string();
}

}  // namespace

std::optional<nlohmann::json> read_kept_object(const std::string& run_directory, const char* name) {
  const std::string path = path_of(run_directory, name);
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  nlohmann::json object = nlohmann::json::parse(in, nullptr, false);
  PENSTOCK_CHECK(object.is_object(), path,
                 ": is not a JSON object, so it was damaged; delete it and resume the run, or "
                 "carry the study out again");
  return object;
}

void write_kept_object(const nlohmann::json& object, const std::string& run_directory,
                       const char* name) {
  create_directories(real_file_system(), run_directory);
  write_file_atomically(real_file_system(), path_of(run_directory, name), readable_text(object));
}

CheckpointInfo find_checkpoint(const std::string& run_directory, RunCheckpoint which) {
  CheckpointStore store(real_file_system(), run_directory);
  const CheckpointSearch search = which == RunCheckpoint::best ? store.best() : store.latest();
  const bool never_evaluated = which == RunCheckpoint::best && search.ignored.empty();
  PENSTOCK_CHECK(search.found, run_directory, ": has no whole ", word(which), " checkpoint",
                 search.ignored.empty() ? "" : " (" + search.ignored.front() + ")",
                 never_evaluated
                     ? "; a run that is not evaluated (train.eval_every = 0) has no best one"
                     : "; put one back, or delete the folder to train the run again");
  return *search.found;
}

Split measured_split(const Corpus& corpus) {
  return corpus.count(Split::kTest).tokens > 1 ? Split::kTest : Split::kValidation;
}

}  // namespace penstock::study
