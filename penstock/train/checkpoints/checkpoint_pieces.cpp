#include "penstock/train/checkpoints/checkpoint_pieces.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "penstock/base/error.h"

namespace penstock {
namespace {

using nlohmann::json;

std::filesystem::path note_path(const PiecePlace& place) {
  return place.directory / fmt::format("piece-{:05}.json", place.rank + 1);
}

}  // namespace

std::string piece_name(const std::string& kind, int rank, int ranks) {
  return fmt::format("{}-{:05}-of-{:05}.safetensors", kind, rank + 1, ranks);
}

bool is_piece(const std::string& kind, const std::string& name) {
  return name.starts_with(kind + "-") && name.ends_with(".safetensors");
}

WrittenPiece write_piece(FileSystem& fs, const PiecePlace& place, const TensorMap& model,
                         const TensorMap& optimizer) {
  WrittenPiece out{.model_bytes = tensor_bytes(model)};
  for (const auto& [name, tensor] : model) out.tensors.push_back(name);
  const auto write = [&](const std::string& kind, const TensorMap& tensors,
                         const Metadata& metadata) {
    if (tensors.empty()) return;
    const std::string name = piece_name(kind, place.rank, place.ranks);
    const auto file =
        digested(fs.open(place.directory / name, OpenMode::kTruncate), out.files[name]);
    write_tensors(*file, tensors, metadata);
    file->close();
  };
  write("model", model, {{"format", "pt"}});  // as in the file of a whole model
  write("optimizer", optimizer, {});
  return out;
}

std::string piece_text(const WrittenPiece& piece) {
  json files = json::object();
  for (const auto& [name, digest] : piece.files) files[name] = {digest.bytes, digest.checksum};
  return json{{"files", files}, {"tensors", piece.tensors}, {"model_bytes", piece.model_bytes}}
             .dump() +
         "\n";
}

WrittenPiece parse_piece(const std::string& text, const std::string& origin) {
  try {
    const json note = json::parse(text);
    WrittenPiece out{.tensors = note.at("tensors").get<std::vector<std::string>>(),
                     .model_bytes = note.at("model_bytes").get<std::uint64_t>()};
    for (const auto& [name, digest] : note.at("files").items())
      out.files[name] = {digest.at(0).get<std::uint64_t>(), digest.at(1).get<std::uint64_t>()};
    return out;
  } catch (const json::exception&) {
    fail(origin, ": is malformed");
  }
}

void note_piece(FileSystem& fs, const PiecePlace& place, const WrittenPiece& piece) {
  const std::filesystem::path path = note_path(place), made = temporary_path(path);
  fs.sync_directory(place.directory);
  const auto file = fs.open(made, OpenMode::kTruncate);
  file->write(bytes_of(piece_text(piece)));
  file->close();
  fs.rename(made, path);  // from here on rank 0 may rename the directory
}

std::optional<WrittenPiece> noted_piece(FileSystem& fs, const PiecePlace& place) {
  const std::filesystem::path path = note_path(place);
  if (!fs.exists(path)) return std::nullopt;
  return parse_piece(fs.read(path), path.string());
}

void ReportedPieces::put(int rank, WrittenPiece piece) {
  const std::scoped_lock lock(mutex_);
  pieces_[rank] = std::move(piece);
}

std::optional<WrittenPiece> ReportedPieces::of(int rank) const {
  const std::scoped_lock lock(mutex_);
  const auto found = pieces_.find(rank);
  return found == pieces_.end() ? std::nullopt : std::optional(found->second);
}

void remove_notes(FileSystem& fs, const std::filesystem::path& directory, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    fs.remove_all(note_path({.directory = directory, .rank = rank, .ranks = ranks}));
}

std::string shard_index(const std::vector<WrittenPiece>& pieces) {
  json map = json::object();
  std::uint64_t bytes = 0;
  for (std::size_t rank = 0; rank < pieces.size(); ++rank) {
    bytes += pieces[rank].model_bytes;
    for (const std::string& tensor : pieces[rank].tensors)
      map[tensor] = piece_name("model", static_cast<int>(rank), static_cast<int>(pieces.size()));
  }
  return json{{"metadata", {{"total_size", bytes}}}, {"weight_map", map}}.dump(1) + "\n";
}

}  // namespace penstock
