#include "penstock/train/checkpoints/checkpoints.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "penstock/base/atomic_files.h"
#include "penstock/base/json_text.h"
#include "penstock/dist/lost_rank.h"
#include "penstock/train/checkpoints/checkpoint_manifest.h"

namespace penstock {
namespace {

constexpr const char* kModel = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kConfig = "config.json";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kTrainer = "trainer.json";
constexpr std::string_view kPrefix = "step-";

std::string directory_name(std::int64_t step) { return concat(kPrefix, step); }

std::optional<std::int64_t> parse_step(std::string_view name) {
  if (!name.starts_with(kPrefix)) return {};
  const auto digits = name.substr(kPrefix.size());
  std::int64_t step = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (result.ec != std::errc() || step < 0 || directory_name(step) != name) return {};
  return step;
}

void write_tensor_file(AtomicDirectory& directory, const char* name, const TensorMap& tensors,
                       const Metadata& metadata) {
  const auto file = directory.create(name);
  write_tensors(*file, tensors, metadata);
  file->close();
}

/// Runs `action`. A full disk gives the same error on every rank.
template <class Action>
void explain_full_disk(std::int64_t step, const std::filesystem::path& root, const TensorMap& model,
                       const TensorMap& optimizer, const Action& action) {
  try {
    action();
  } catch (const DiskFullError&) {
    throw DiskFullError(concat("cannot save the checkpoint of step ", step, " in ", root.string(),
                               ": disk full; it needs about ",
                               tensor_bytes(model) + tensor_bytes(optimizer),
                               " bytes. Nothing saved before is lost: free some space and resume"));
  }
}

void write_whole(AtomicDirectory& directory, const CheckpointContents& contents) {
  // Hugging Face's loaders ask for this entry.
  write_tensor_file(directory, kModel, contents.model, {{"format", "pt"}});
  write_tensor_file(directory, kOptimizer, contents.optimizer, {});
}

/// Waits for what another rank reports about its files.
WrittenPiece wait_for_piece(FileSystem& fs, const PiecePlace& place,
                            const SharedCheckpoint& shared) {
  std::chrono::milliseconds pause(1);
  while (true) {
    // A file system over a network may show the note late.
    if (auto piece = shared.reported->of(place.rank)) return *std::move(piece);
    if (auto piece = noted_piece(fs, place)) return *std::move(piece);
    PENSTOCK_CHECK(!shared.given_up || !shared.given_up(), place.directory.string(),
                   ": given up before rank ", place.rank, " had written its piece");
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(50));
  }
}

/// Writes rank 0's piece, and the index that joins it with the pieces of the other ranks.
void write_pieces(FileSystem& fs, const CheckpointContents& contents,
                  const SharedCheckpoint& shared) {
  AtomicDirectory& directory = *shared.directory;
  PiecePlace place{.directory = directory.temporary(), .ranks = shared.ranks};
  std::vector<WrittenPiece> pieces = {write_piece(fs, place, contents.model, contents.optimizer)};
  while (++place.rank < shared.ranks) pieces.push_back(wait_for_piece(fs, place, shared));
  for (const WrittenPiece& piece : pieces)
    for (const auto& [name, digest] : piece.files) directory.add(name, digest);
  remove_notes(fs, directory.temporary(), shared.ranks);
  directory.write(kIndex, shard_index(pieces));
}

void write_contents(FileSystem& fs, const std::filesystem::path& path, std::int64_t step,
                    const CheckpointContents& contents, std::optional<double> validation_loss,
                    const std::optional<SharedCheckpoint>& shared) {
  const auto directory = shared ? shared->directory : std::make_shared<AtomicDirectory>(fs, path);
  shared ? write_pieces(fs, contents, *shared) : write_whole(*directory, contents);
  directory->write(kConfig, contents.config_json);
  for (const auto& [name, text] : contents.files) directory->write(name, text);
  directory->write(kTrainer, json_text(contents.trainer, 1) + "\n");
  directory->write(kManifestName, manifest_text({.step = step,
                                                 .validation_loss = validation_loss,
                                                 .files = directory->digests()}));
  directory->commit();
}

bool of_model(const std::string& name) {
  return name == kModel || name == kIndex || is_piece("model", name);
}

bool of_optimizer(const std::string& name) {
  return name == kOptimizer || is_piece("optimizer", name);
}

/// @param tensors  reads the tensors of a file, or of a directory's model
CheckpointContents read_contents(FileSystem& fs, const std::filesystem::path& path,
                                 const CheckpointManifest& manifest,
                                 TensorMap (&tensors)(const std::filesystem::path&)) {
  const auto check = [&](const char* name, bool found) {
    PENSTOCK_CHECK(found, path.string(), ": ", name, " is missing");
  };
  for (const auto* name : {kConfig, kTrainer}) check(name, manifest.files.contains(name));
  CheckpointContents out{.config_json = fs.read(path / kConfig)};
  check(kModel, manifest.files.contains(kModel) || manifest.files.contains(kIndex));
  out.model = tensors(path);
  bool optimizer = false;
  for (const auto& [name, digest] : manifest.files) {
    if (of_optimizer(name)) {
      out.optimizer.merge(tensors(path / name));
      optimizer = true;
    } else if (!of_model(name) && name != kConfig && name != kTrainer) {
      out.files[name] = fs.read(path / name);
    }
  }
  check(kOptimizer, optimizer);
  out.trainer = nlohmann::json::parse(fs.read(path / kTrainer), nullptr, false);
  PENSTOCK_CHECK(!out.trainer.is_discarded(), (path / kTrainer).string(), ": not valid JSON");
  return out;
}

}  // namespace

WrittenPiece save_piece(FileSystem& fs, const PiecePlace& place, std::int64_t step,
                        const TensorMap& model, const TensorMap& optimizer) {
  WrittenPiece out;
  explain_full_disk(step, parent_directory(place.directory), model, optimizer, [&] {
    out = write_piece(fs, place, model, optimizer);
    note_piece(fs, place, out);
  });
  return out;
}

CheckpointContents open_checkpoint(FileSystem& fs, const std::filesystem::path& directory) {
  return read_contents(fs, directory, verify_checkpoint(fs, directory, false), map_tensors);
}

CheckpointStore::CheckpointStore(FileSystem& fs, const std::filesystem::path& run_directory,
                                 CheckpointPolicy policy)
    : fs_(fs), root_(run_directory / "checkpoints"), policy_(policy) {
  PENSTOCK_CHECK(policy.keep_last >= 1, "at least one checkpoint must be kept, not ",
                 policy.keep_last);
}

std::filesystem::path CheckpointStore::directory(std::int64_t step) const {
  return root_ / directory_name(step);
}

std::vector<std::int64_t> CheckpointStore::steps() const {
  std::vector<std::int64_t> out;
  if (!fs_.exists(root_)) return out;
  for (const auto& name : fs_.list(root_))
    if (const auto step = parse_step(name)) out.push_back(*step);
  std::ranges::sort(out);
  return out;
}

void CheckpointStore::recover() {
  create_directories(fs_, root_);
  clean_leftovers(fs_, root_);
}

std::shared_ptr<AtomicDirectory> CheckpointStore::begin(std::int64_t step) {
  std::shared_ptr<AtomicDirectory> out;
  explain_full_disk(step, root_, {}, {}, [&] {
    create_directories(fs_, root_);
    out = std::make_shared<AtomicDirectory>(fs_, directory(step));
  });
  return out;
}

void CheckpointStore::save(std::int64_t step, const CheckpointContents& contents,
                           std::optional<double> validation_loss, Superseded superseded,
                           const std::optional<SharedCheckpoint>& shared) {
  if (validation_loss && !std::isfinite(*validation_loss)) validation_loss.reset();
  explain_full_disk(step, root_, contents.model, contents.optimizer, [&] {
    create_directories(fs_, root_);
    write_contents(fs_, directory(step), step, contents, validation_loss, shared);
  });
  if (superseded == Superseded::remove) remove_superseded(step);
}

std::vector<CheckpointInfo> CheckpointStore::list(CheckpointSearch& search,
                                                  std::vector<Ignored>& ignored) {
  std::vector<CheckpointInfo> out;
  if (!fs_.exists(root_)) return out;
  for (const auto& name : fs_.list(root_)) {
    const auto step = parse_step(name);
    if (!step) continue;
    try {
      const auto manifest = verify_checkpoint(fs_, root_ / name, false);
      PENSTOCK_CHECK(manifest.step == *step, (root_ / name).string(), ": its manifest says step ",
                     manifest.step);
      out.push_back({*step, root_ / name, manifest.validation_loss});
    } catch (const Error& error) {
      note_unusable({*step, error.what()}, search, ignored);
    }
  }
  std::ranges::sort(out, std::greater(), &CheckpointInfo::step);
  return out;
}

void CheckpointStore::note_unusable(Ignored unusable, CheckpointSearch& search,
                                    std::vector<Ignored>& ignored) {
  // A checkpoint that was removed since it was listed is not damaged.
  if (fs_.exists(directory(unusable.step)))
    ignored.push_back(std::move(unusable));
  else
    search.removed_meanwhile = true;
}

void CheckpointStore::first_intact(std::vector<CheckpointInfo> candidates,
                                   std::vector<Ignored> ignored, CheckpointSearch& search,
                                   const std::function<void()>& meanwhile) {
  for (auto& candidate : candidates) {
    try {
      verify_checkpoint(fs_, candidate.directory, true, meanwhile);
      search.found = std::move(candidate);
      break;
    } catch (const dist::LostRank&) {
      throw;  // of `meanwhile`; the checkpoint may be whole
    } catch (const Error& error) {
      note_unusable({candidate.step, error.what()}, search, ignored);
    }
  }
  std::ranges::stable_sort(ignored, std::greater(), &Ignored::step);
  for (auto& [step, sentence] : ignored) search.ignored.push_back(std::move(sentence));
}

CheckpointSearch CheckpointStore::latest(const std::function<void()>& meanwhile) {
  CheckpointSearch out;
  std::vector<Ignored> ignored;
  auto candidates = list(out, ignored);
  first_intact(std::move(candidates), std::move(ignored), out, meanwhile);
  return out;
}

CheckpointSearch CheckpointStore::best() {
  CheckpointSearch out;
  std::vector<Ignored> ignored;
  auto candidates = list(out, ignored);
  std::erase_if(candidates, [](const auto& info) { return !info.validation_loss; });
  std::ranges::sort(candidates, [](const auto& a, const auto& b) {
    return std::tie(*a.validation_loss, a.step) < std::tie(*b.validation_loss, b.step);
  });
  first_intact(std::move(candidates), std::move(ignored), out);
  return out;
}

CheckpointContents CheckpointStore::load(std::int64_t step) {
  const auto path = directory(step);
  PENSTOCK_CHECK(fs_.exists(path), path.string(), ": no such checkpoint");
  return read_contents(fs_, path, verify_checkpoint(fs_, path, true), load_tensors);
}

void CheckpointStore::remove_superseded(std::int64_t step) {
  CheckpointSearch search;
  std::vector<Ignored> ignored;
  auto candidates = list(search, ignored);
  // Later checkpoints belong to a run that was given up; they must not push the new one out.
  std::erase_if(candidates, [&](const auto& info) { return info.step > step; });
  std::set<std::int64_t> kept = {step};
  const CheckpointInfo* best = nullptr;
  for (const auto& info : candidates) {
    if (std::ssize(kept) < policy_.keep_last) kept.insert(info.step);
    if (info.validation_loss && (!best || std::tie(*info.validation_loss, info.step) <
                                              std::tie(*best->validation_loss, best->step)))
      best = &info;
  }
  if (best && policy_.keep_best) kept.insert(best->step);
  for (const auto& info : candidates) {
    if (kept.contains(info.step)) continue;
    // Renamed first: a half-removed directory must not look like a checkpoint.
    const auto doomed = temporary_path(info.directory);
    fs_.rename(info.directory, doomed);
    fs_.sync_directory(root_);
    fs_.remove_all(doomed);
  }
}

}  // namespace penstock
