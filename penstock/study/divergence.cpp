#include "penstock/study/divergence.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "penstock/base/atomic_files.h"
#include "penstock/io/json_text.h"
#include "penstock/study/json_field.h"

namespace penstock::study {
namespace {

std::string divergence_path(const std::string& run_directory) {
  return (std::filesystem::path(run_directory) / "diverged.json").string();
}

}  // namespace

void write_divergence(const std::string& run_directory, const std::string& reason) {
  create_directories(real_file_system(), run_directory);
  write_file_atomically(real_file_system(), divergence_path(run_directory),
                        readable_text(nlohmann::json{{"reason", reason}}));
}

std::optional<std::string> read_divergence(const std::string& run_directory) {
  const std::string path = divergence_path(run_directory);
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  const nlohmann::json object = nlohmann::json::parse(in, nullptr, false);
  PENSTOCK_CHECK(object.is_object(), path, ": is not a JSON object; remove it to train again");
  return string_or(object, "reason", "", path);
}

void forget_divergence(const std::string& run_directory) {
  std::filesystem::remove(divergence_path(run_directory));
}

}  // namespace penstock::study
