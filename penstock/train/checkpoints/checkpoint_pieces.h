// Pieces of a checkpoint: several ranks write files, each with its own tensors, into a directory
// that all of them see. A rank's note says that its files are on the disk. checkpoints.h makes the
// directory and turns it into a checkpoint.
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

/// File name of a rank's piece, by Hugging Face's names of shards:
/// "model-00002-of-00004.safetensors" for rank 1 of 4.
std::string piece_name(const std::string& kind, int rank, int ranks);
/// Whether `name` is the name of a piece of that kind.
bool is_piece(const std::string& kind, const std::string& name);

/// What a rank reports about its files once they are durable.
struct WrittenPiece {
  std::map<std::string, FileDigest> files;
  std::vector<std::string> tensors;  ///< names of the tensors in its model file
  std::uint64_t model_bytes = 0;
};

/// Writes and syncs this rank's files. A kind without tensors gets no file.
WrittenPiece write_piece(FileSystem& fs, const PiecePlace& place, const TensorMap& model,
                         const TensorMap& optimizer);

/// The text of a note about a piece.
std::string piece_text(const WrittenPiece& piece);
/// Throws Error for anything that piece_text() did not write. The error calls the text `origin`.
WrittenPiece parse_piece(const std::string& text, const std::string& origin);

/// Writes the note that this rank's files are durable. Touches nothing in the directory after that.
void note_piece(FileSystem& fs, const PiecePlace& place, const WrittenPiece& piece);
/// The rank's note; nothing if there is none yet. Throws Error if the file is not a valid note.
std::optional<WrittenPiece> noted_piece(FileSystem& fs, const PiecePlace& place);
/// Pieces that ranks report by messages, not by notes. Any thread may use it.
class ReportedPieces {
 public:
  void put(int rank, WrittenPiece piece);
  std::optional<WrittenPiece> of(int rank) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, WrittenPiece> pieces_;
};

/// Removes the ranks' notes, which do not belong to the finished checkpoint.
void remove_notes(FileSystem& fs, const std::filesystem::path& directory, int ranks);

/// The text of model.safetensors.index.json.  @param pieces  by rank
std::string shard_index(const std::vector<WrittenPiece>& pieces);

}  // namespace penstock
