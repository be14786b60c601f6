// The checkpoints of a run: `RUN/checkpoints/step-N/`, each a Hugging Face model directory with
// what resuming needs beside it. Each is complete or absent; a manifest of sizes and checksums
// tells damage. Knows nothing of the model or the optimizer beyond names and tensors. One process
// makes and commits them; others may have written pieces (checkpoint_pieces.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/atomic_files.h"
#include "penstock/base/file_system.h"
#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/train/checkpoints/checkpoint_pieces.h"

namespace penstock {

struct CheckpointContents {
  TensorMap model;                           // model.safetensors, or the pieces of an index
  std::string config_json;                   // config.json
  std::map<std::string, std::string> files;  // further files by name: the tokenizer's
  TensorMap optimizer;                       // optimizer.safetensors, or pieces
  nlohmann::json trainer;                    // trainer.json
};

struct CheckpointInfo {
  std::int64_t step = 0;
  std::filesystem::path directory;
  std::optional<double> validation_loss;
};

/// What a search found, and a sentence for each directory that it passed over as damaged, newest
/// first.
struct CheckpointSearch {
  std::optional<CheckpointInfo> found;
  std::vector<std::string> ignored;
  /// Whether a checkpoint went away during the search: the run is still training, and removes those
  /// that it no longer keeps.
  bool removed_meanwhile = false;
};

/// What a save does with those that the policy no longer keeps.
enum class Superseded { remove, keep };

/// A checkpoint of which other ranks write pieces, into the directory that CheckpointStore::begin()
/// made.
struct SharedCheckpoint {
  std::shared_ptr<AtomicDirectory> directory;
  int ranks = 1;  ///< that write, rank 0, which commits, included
  std::shared_ptr<ToldPieces> told = std::make_shared<ToldPieces>();
  std::function<bool()> given_up = {};  ///< asked while it waits for the others
};

/// The other ranks' side: writes this one's tensors, and tells when they are durable. Throws
/// DiskFullError as CheckpointStore::save() does.
WrittenPiece save_piece(FileSystem& fs, const PiecePlace& place, std::int64_t step,
                        const TensorMap& model, const TensorMap& optimizer);

/// A checkpoint that was found intact, its tensors mapped from the files: nobody may write to them.
/// Throws Error where a file is missing or has another size.
CheckpointContents open_checkpoint(FileSystem& fs, const std::filesystem::path& directory);

struct CheckpointPolicy {
  std::int64_t keep_last = 2;  // at least 1
  bool keep_best = true;       // the one with the lowest validation loss, beyond the last ones
};

class CheckpointStore {
 public:
  CheckpointStore(FileSystem& fs, const std::filesystem::path& run_directory,
                  CheckpointPolicy policy = {});

  /// Removes unfinished files of dead writers. The writer calls it before its first save.
  void recover();
  /// Writes `step-N` durably (in place of one of that name), then removes what the policy no longer
  /// keeps unless told to keep it; never the new one, never one of a later step.
  /// Throws DiskFullError with the bytes needed; the earlier checkpoints are then intact.
  /// @param shared  given: `contents` are rank 0's, and it waits for the pieces of the others
  void save(std::int64_t step, const CheckpointContents& contents,
            std::optional<double> validation_loss = std::nullopt,
            Superseded superseded = Superseded::remove,
            const std::optional<SharedCheckpoint>& shared = std::nullopt);
  /// The directory in which ranks write that step's pieces; it goes unless save() commits it.
  std::shared_ptr<AtomicDirectory> begin(std::int64_t step);
  /// The newest one whose files all match its manifest. Reads them all.
  CheckpointSearch latest();
  /// As latest(), by lowest validation loss, earliest step first among equals.
  CheckpointSearch best();
  /// Everything that save() was given. Throws Error when damaged or absent.
  CheckpointContents load(std::int64_t step);
  /// Steps of the checkpoints that are there, ascending, whole or not; none without a folder.
  std::vector<std::int64_t> steps() const;
  /// Where they all lie.
  const std::filesystem::path& root() const { return root_; }
  /// Where the checkpoint of that step is, or would be.
  std::filesystem::path directory(std::int64_t step) const;

 private:
  struct Ignored {
    std::int64_t step = 0;
    std::string sentence;
  };
  std::vector<CheckpointInfo> list(CheckpointSearch& search, std::vector<Ignored>& ignored);
  void note_unusable(Ignored unusable, CheckpointSearch& search, std::vector<Ignored>& ignored);
  void first_intact(std::vector<CheckpointInfo> candidates, std::vector<Ignored> ignored,
                    CheckpointSearch& search);
  void remove_superseded(std::int64_t step);

  FileSystem& fs_;
  std::filesystem::path root_;
  CheckpointPolicy policy_;
};

}  // namespace penstock
