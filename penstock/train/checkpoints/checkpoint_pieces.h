// The files of a checkpoint that several ranks write, each its own tensors, into a directory that
// all of them see; and the note by which each says that its files are on the disk. The directory is
// made, and becomes a checkpoint, elsewhere (checkpoints.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/atomic_files.h"
#include "penstock/base/file_system.h"
#include "penstock/models/formats/torch_safetensors.h"

namespace penstock {

/// Where a rank writes its piece of a checkpoint that is being made.
struct PiecePlace {
  std::filesystem::path directory;
  int rank = 0, ranks = 1;
};

/// "model-00002-of-00004.safetensors", by Hugging Face's names of shards, of rank 1 of 4.
std::string piece_name(const std::string& kind, int rank, int ranks);
/// Whether a file of that kind has such a name.
bool is_piece(const std::string& kind, const std::string& name);

/// What a rank says of its files once they are durable.
struct WrittenPiece {
  std::map<std::string, FileDigest> files;
  std::vector<std::string> tensors;  ///< of its file of the model
  std::uint64_t model_bytes = 0;
};

/// Writes and syncs this rank's files. No tensors: no file.
WrittenPiece write_piece(FileSystem& fs, const PiecePlace& place, const TensorMap& model,
                         const TensorMap& optimizer);

std::string piece_text(const WrittenPiece& piece);
/// Throws Error for anything that piece_text() did not write; `origin` stands for it.
WrittenPiece parse_piece(const std::string& text, const std::string& origin);

/// Tells whoever looks there that the files are durable. Touches nothing there once it has.
void note_piece(FileSystem& fs, const PiecePlace& place, const WrittenPiece& piece);
/// What that rank has told; none yet: nothing. Throws Error where it is no such note.
std::optional<WrittenPiece> noted_piece(FileSystem& fs, const PiecePlace& place);
/// What ranks have told by another way than a note. Any thread.
class ToldPieces {
 public:
  void put(int rank, WrittenPiece piece);
  std::optional<WrittenPiece> of(int rank) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, WrittenPiece> pieces_;
};

/// The notes are no part of the checkpoint.
void remove_notes(FileSystem& fs, const std::filesystem::path& directory, int ranks);

/// model.safetensors.index.json. @param pieces  by rank
std::string shard_index(const std::vector<WrittenPiece>& pieces);

}  // namespace penstock
