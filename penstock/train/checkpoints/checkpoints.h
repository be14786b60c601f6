// The checkpoints of a run: `RUN/checkpoints/step-N/`. Each is a Hugging Face model directory with
// further files that resuming needs. A checkpoint is complete or absent; its manifest of sizes and
// checksums reveals damage. The code knows the model and the optimizer only as names and tensors.
// One process makes and commits checkpoints; other processes may write pieces
// (checkpoint_pieces.h).
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
  /// Whether a checkpoint disappeared during the search. A run that is still training removes
  /// checkpoints that it no longer keeps.
  bool removed_meanwhile = false;
};

/// What a save does with checkpoints that the policy no longer keeps.
enum class Superseded { remove, keep };

/// A checkpoint whose pieces all ranks write, into the directory that CheckpointStore::begin()
/// made.
struct SharedCheckpoint {
  std::shared_ptr<AtomicDirectory> directory;
  int ranks = 1;  ///< ranks that write, including rank 0, which also commits
  std::shared_ptr<ReportedPieces> reported = std::make_shared<ReportedPieces>();
  /// called during the wait for other ranks; true ends the wait
  std::function<bool()> given_up = {};
};

/// For ranks other than 0: writes this rank's tensors, and then the note that they are durable.
/// Throws DiskFullError as CheckpointStore::save() does.
WrittenPiece save_piece(FileSystem& fs, const PiecePlace& place, std::int64_t step,
                        const TensorMap& model, const TensorMap& optimizer);

/// Opens a checkpoint that was found intact. Its tensors are mapped from the files, so nobody may
/// write to them. Throws Error if a file is missing or has another size.
CheckpointContents open_checkpoint(FileSystem& fs, const std::filesystem::path& directory);

struct CheckpointPolicy {
  std::int64_t keep_last = 2;  // at least 1
  bool keep_best = true;       // also keep the one with the lowest validation loss
};

class CheckpointStore {
 public:
  CheckpointStore(FileSystem& fs, const std::filesystem::path& run_directory,
                  CheckpointPolicy policy = {});

  /// Removes unfinished files of dead writers. The writer calls it before its first save.
  void recover();
  /// Writes `step-N` durably, in place of an earlier checkpoint of that name. Then removes
  /// checkpoints that the policy no longer keeps, unless `superseded` is `keep`. It never removes
  /// the new checkpoint or one of a later step.
  /// Throws DiskFullError with the bytes needed; the earlier checkpoints are then intact.
  /// @param shared  if given, `contents` are rank 0's tensors, and save() waits for the pieces of
  ///                the other ranks
  void save(std::int64_t step, const CheckpointContents& contents,
            std::optional<double> validation_loss = std::nullopt,
            Superseded superseded = Superseded::remove,
            const std::optional<SharedCheckpoint>& shared = std::nullopt);
  /// Makes the directory in which ranks write that step's pieces. It is removed unless save()
  /// commits it.
  std::shared_ptr<AtomicDirectory> begin(std::int64_t step);
  /// The newest checkpoint whose files all match its manifest. Reads all its files.
  /// @param meanwhile  called after each piece of a file that is read; may throw dist::LostRank
  CheckpointSearch latest(const std::function<void()>& meanwhile = {});
  /// Like latest(), but the checkpoint with the lowest validation loss, among equals the earliest
  /// step.
  CheckpointSearch best();
  /// Reads back what save() was given. Throws Error if the checkpoint is damaged or absent.
  CheckpointContents load(std::int64_t step);
  /// Steps of all checkpoints in the folder, ascending, intact or not; none without a folder.
  std::vector<std::int64_t> steps() const;
  /// The folder of all checkpoints.
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
                    CheckpointSearch& search, const std::function<void()>& meanwhile = {});
  void remove_superseded(std::int64_t step);

  FileSystem& fs_;
  std::filesystem::path root_;
  CheckpointPolicy policy_;
};

}  // namespace penstock
