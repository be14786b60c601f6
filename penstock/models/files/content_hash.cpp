#include "penstock/models/files/content_hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "penstock/base/checksum.h"
#include "penstock/base/error.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

void add_file(const fs::path& path, Xxh64& hash) {
  std::ifstream in(path, std::ios::binary);
  PENSTOCK_CHECK(in, path.string(), ": cannot be opened; check the path");
  std::vector<char> piece(std::size_t{1} << 20);
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0)
    hash.update(std::as_bytes(std::span(piece).first(static_cast<std::size_t>(in.gcount()))));
  PENSTOCK_CHECK(!in.bad(), path.string(), ": cannot be read");
}

}  // namespace

std::string model_content_hash(const std::string& path) {
  Xxh64 hash;
  if (!fs::is_directory(path)) {
    add_file(path, hash);
    return fmt::format("{:016x}", hash.value());
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path))
    if (entry.path().extension() == ".safetensors" || entry.path().filename() == "config.json")
      files.push_back(entry.path());
  std::ranges::sort(files);
  PENSTOCK_CHECK(!files.empty(), path, ": holds no model; give a model directory");
  for (const auto& file : files) {
    const std::string name = file.filename().string();
    hash.update(std::as_bytes(std::span(name)));
    add_file(file, hash);
  }
  return fmt::format("{:016x}", hash.value());
}

const std::string& ContentHashes::of(const std::string& path) {
  const auto found = known_.find(path);
  return found != known_.end() ? found->second : known_.emplace(path, hash_(path)).first->second;
}

}  // namespace penstock
