// The checkpoints of a run: `RUN/checkpoints/step-N/`, each a Hugging Face model directory with
// what resuming needs beside it. Each is complete or absent; a manifest of sizes and checksums
// tells damage. Knows nothing of the model or the optimizer beyond names and tensors. One process
// writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/models/tensor_files.h"

namespace penstock {

struct CheckpointContents {
  TensorMap model;                           // model.safetensors
  std::string config_json;                   // config.json
  std::map<std::string, std::string> files;  // further files by name: the tokenizer's
  TensorMap optimizer;                       // optimizer.safetensors
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

struct CheckpointPolicy {
  std::int64_t keep_last = 2;  // at least 1
  bool keep_best = true;       // the one with the lowest validation loss, beyond the last ones
};

class CheckpointStore {
 public:
  CheckpointStore(FileSystem& fs, const std::filesystem::path& run_directory,
                  CheckpointPolicy policy = {});

  /// For the writer, before its first save: removes what dead writers left half-made.
  void recover();
  /// Writes `step-N` durably (in place of one of that name), then removes what the policy no longer
  /// keeps unless told to keep it; never the new one, never one of a later step.
  /// Throws DiskFullError with the bytes needed; the earlier checkpoints are then intact.
  void save(std::int64_t step, const CheckpointContents& contents,
            std::optional<double> validation_loss = std::nullopt,
            Superseded superseded = Superseded::remove);
  /// The newest one whose files all match its manifest. Reads them all.
  CheckpointSearch latest();
  /// As latest(), by lowest validation loss, earliest step first among equals.
  CheckpointSearch best();
  /// Everything that save() was given. Throws Error when damaged or absent.
  CheckpointContents load(std::int64_t step);
  /// Steps of the checkpoints that are there, ascending, whole or not; none without a folder.
  std::vector<std::int64_t> steps() const;
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
