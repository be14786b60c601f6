#include "penstock/data/fetch/fetched_record.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/json_error.h"
#include "penstock/data/sha.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace

FetchedRecord::FetchedRecord(const std::string& download, std::vector<std::string> files)
    : path_(download + ".fetched.json"), files_(std::move(files)) {
  auto& fs = real_file_system();
  if (!fs.exists(path_)) return;
  try {
    const Json record = Json::parse(fs.read(path_));
    for (const std::string& file : files_)
      sums_.push_back(record.at("files").at(file_name(file)).get<std::string>());
    bytes_ = record.at("bytes").get<std::uint64_t>();
    sha256_ = record.at("sha256").get<std::string>();
  } catch (const nlohmann::json::exception& error) {
    fail("'", path_, "' is damaged (", json_error_text(error),
         "); remove it and the files that it is of");
  }
}

bool FetchedRecord::is_complete() const {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    if (!real_file_system().exists(files_[i])) return false;
    const std::string found = sha_of_file(files_[i], ShaKind::kSha256);
    PENSTOCK_CHECK(found == sums_[i], "'", files_[i], "' has sha256 ", found, ", and had ",
                   sums_[i], " when it was fetched (", path_, "); remove both to fetch it again");
  }
  return true;
}

void FetchedRecord::write(const std::string& sha256, std::uint64_t bytes) {
  Json files = Json::object();
  for (const std::string& file : files_)
    files[file_name(file)] = sha_of_file(file, ShaKind::kSha256);
  const Json record = {{"sha256", sha256}, {"bytes", bytes}, {"files", files}};
  write_file_atomically(real_file_system(), path_, record.dump(1) + "\n");
}

}  // namespace penstock
