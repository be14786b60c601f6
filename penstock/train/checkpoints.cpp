#include "penstock/train/checkpoints.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "penstock/base/atomic_files.h"
#include "penstock/train/checkpoint_manifest.h"

namespace penstock {
namespace {

constexpr const char* kModel = "model.safetensors";
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

void write_contents(FileSystem& fs, const std::filesystem::path& path, std::int64_t step,
                    const CheckpointContents& contents, std::optional<double> validation_loss) {
  AtomicDirectory directory(fs, path);
  // Hugging Face's loaders ask for this entry.
  write_tensor_file(directory, kModel, contents.model, {{"format", "pt"}});
  directory.write(kConfig, contents.config_json);
  for (const auto& [name, text] : contents.files) directory.write(name, text);
  write_tensor_file(directory, kOptimizer, contents.optimizer, {});
  directory.write(kTrainer, contents.trainer.dump(1) + "\n");
  directory.write(kManifestName, manifest_text({.step = step,
                                                .validation_loss = validation_loss,
                                                .files = directory.digests()}));
  directory.commit();
}

}  // namespace

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

void CheckpointStore::save(std::int64_t step, const CheckpointContents& contents,
                           std::optional<double> validation_loss, Superseded superseded) {
  if (validation_loss && !std::isfinite(*validation_loss)) validation_loss.reset();
  try {
    create_directories(fs_, root_);
    write_contents(fs_, directory(step), step, contents, validation_loss);
  } catch (const DiskFullError&) {
    throw DiskFullError(concat("cannot save the checkpoint of step ", step, " in ", root_.string(),
                               ": disk full; it needs about ",
                               tensor_bytes(contents.model) + tensor_bytes(contents.optimizer),
                               " bytes. Nothing saved before is lost: free some space and resume"));
  }
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
  // Removed since it was listed is not damaged.
  if (fs_.exists(directory(unusable.step)))
    ignored.push_back(std::move(unusable));
  else
    search.removed_meanwhile = true;
}

void CheckpointStore::first_intact(std::vector<CheckpointInfo> candidates,
                                   std::vector<Ignored> ignored, CheckpointSearch& search) {
  for (auto& candidate : candidates) {
    try {
      verify_checkpoint(fs_, candidate.directory, true);
      search.found = std::move(candidate);
      break;
    } catch (const Error& error) {
      note_unusable({candidate.step, error.what()}, search, ignored);
    }
  }
  std::ranges::stable_sort(ignored, std::greater(), &Ignored::step);
  for (auto& [step, sentence] : ignored) search.ignored.push_back(std::move(sentence));
}

CheckpointSearch CheckpointStore::latest() {
  CheckpointSearch out;
  std::vector<Ignored> ignored;
  auto candidates = list(out, ignored);
  first_intact(std::move(candidates), std::move(ignored), out);
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
  const auto manifest = verify_checkpoint(fs_, path, true);
  for (const auto* name : {kModel, kConfig, kOptimizer, kTrainer})
    PENSTOCK_CHECK(manifest.files.contains(name), path.string(), ": ", name, " is missing");
  CheckpointContents out{.model = load_tensors(path / kModel),
                         .config_json = fs_.read(path / kConfig),
                         .optimizer = load_tensors(path / kOptimizer)};
  out.trainer = nlohmann::json::parse(fs_.read(path / kTrainer), nullptr, false);
  PENSTOCK_CHECK(!out.trainer.is_discarded(), (path / kTrainer).string(), ": not valid JSON");
  for (const auto& [name, digest] : manifest.files)
    if (name != kModel && name != kConfig && name != kOptimizer && name != kTrainer)
      out.files[name] = fs_.read(path / name);
  return out;
}

void CheckpointStore::remove_superseded(std::int64_t step) {
  CheckpointSearch search;
  std::vector<Ignored> ignored;
  auto candidates = list(search, ignored);
  // Later ones belong to a run that was given up; they must not push the new one out.
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
