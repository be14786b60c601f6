#include "penstock/study/runs/run_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <variant>

#include "penstock/base/error.h"
#include "penstock/base/file_lock.h"
#include "penstock/base/file_system.h"
#include "penstock/base/home.h"
#include "penstock/study/config/config_hash.h"

namespace penstock::study {

namespace fs = std::filesystem;

ConfigNode with_seed(const Variant& variant, std::int64_t seed) {
  ConfigNode recipe = variant.recipe;
  if (!variant.from.empty()) {
    // The model that the variant begins with determines [model].
    ConfigNode::Table tables = recipe.table();
    tables.erase("model");
    recipe = ConfigNode(ConfigNode::Value(std::move(tables)));
  }
  recipe.set("train.seed", ConfigNode(seed, "seeds"));
  return recipe;
}

namespace {

std::int64_t steps_of(const ConfigNode& recipe) {
  return std::get<std::int64_t>(recipe.find("train")->find("steps")->value());
}

constexpr const char* kCalibration = "calibration";

/// Whether the variant is upcycled with a text that its [upcycle] names.
bool names_calibration(const Variant& variant) {
  const ConfigNode* const text = variant.upcycle.find(kCalibration);
  return text && !std::get<std::string>(text->value()).empty();
}

/// [upcycle] with the hash of the calibration text in place of its path.
ConfigNode by_content(const ConfigNode& upcycle, const StudyHooks& hooks) {
  const ConfigNode& text = *upcycle.find(kCalibration);
  ConfigNode out = upcycle;
  try {
    out.set(kCalibration, "#" + hooks.text_hash(with_home(std::get<std::string>(text.value()))));
  } catch (const Error& error) {
    fail(text.origin(), ": upcycle.", kCalibration, ": ", error.what());
  }
  return out;
}

ConfigNode with_steps(ConfigNode recipe, std::int64_t steps) {
  recipe.set("train.steps", ConfigNode(steps, "match_compute"));
  return recipe;
}

}  // namespace

std::int64_t matched_steps(double target_flops, std::int64_t begin,
                           const std::function<double(std::int64_t)>& flops_per_step) {
  PENSTOCK_CHECK(target_flops > 0, "match_compute: the run of the named variant states no FLOPs");
  std::set<std::int64_t> met;
  std::int64_t steps = begin, closest = begin;
  double least = std::numeric_limits<double>::infinity();
  while (met.insert(steps).second) {
    const double each = flops_per_step(steps);
    PENSTOCK_ASSERT(each > 0);
    const double off = std::abs(static_cast<double>(steps) * each - target_flops);
    if (off < least) closest = steps;
    least = std::min(least, off);
    steps = std::max<std::int64_t>(1, std::llround(target_flops / each));
  }
  return closest;
}

RunPlans::Beginning RunPlans::beginning(const Variant& variant, std::int64_t seed) const {
  Beginning out;
  if (variant.from_model) {
    out = {.model = variant.from, .identity = hooks_.model_hash(variant.from)};
  } else {
    const auto parent = std::ranges::find(study_.variants, variant.from, &Variant::name);
    const PlannedRun planned = *plan(*parent, seed);  // the parent needs no other run
    out = {.model = planned.directory, .identity = planned.hash};
  }
  return out;
}

std::string RunPlans::directory(const Variant& variant, std::int64_t seed,
                                const std::string& hash) const {
  // The hash in the name separates the runs of an edited recipe from those of the earlier recipe.
  return (folder() / fmt::format("{}-seed-{}-{}", variant.name, seed, hash)).string();
}

void RunPlans::add_beginning(const Variant& variant, std::int64_t seed, PlannedRun& planned) const {
  const std::string of_model = planned.hash + "\n" + beginning(variant, seed).identity;
  const auto hash_with = [&](const ConfigNode& upcycle) {
    std::string text = of_model;
    for (const ConfigNode* node : {&upcycle, &variant.retuned})
      if (!node->empty()) text += "\n" + to_toml(*node);
    return fmt::format("{:016x}", fnv1a(text));
  };
  planned.hash = hash_with(variant.upcycle);
  if (!names_calibration(variant)) return;
  planned.earlier_hash = planned.hash;
  // A run that an earlier version began goes on in its folder.
  if (!fs::exists(directory(variant, seed, planned.hash)))
    planned.hash = hash_with(by_content(variant.upcycle, hooks_));
}

std::optional<PlannedRun> RunPlans::plan(const Variant& variant, std::int64_t seed) const {
  ConfigNode recipe = hooks_.resolve(with_seed(variant, seed));
  if (!variant.match_compute.empty()) {
    const auto other = rows_.find({variant.match_compute, seed});
    if (other == rows_.end()) return std::nullopt;
    recipe = hooks_.resolve(with_steps(
        recipe, matched_steps(other->second.total_flops, steps_of(recipe), [&](std::int64_t steps) {
          return hooks_.flops_per_step(hooks_.resolve(with_steps(recipe, steps)));
        })));
  }
  PlannedRun planned{.recipe = std::move(recipe)};
  planned.hash = config_hash(planned.recipe, hooks_.corpus_hash(planned.recipe));
  if (!variant.from.empty()) add_beginning(variant, seed, planned);
  planned.directory = directory(variant, seed, planned.hash);
  if (!variant.from.empty() && fs::exists(planned.start())) {
    ConfigNode begun = with_seed(variant, seed);
    begun.set("train.init_from", planned.start());
    if (!variant.retuned.empty()) begun.set("model", variant.retuned);
    planned.recipe = hooks_.resolve(begun);
  }
  return planned;
}

fs::path RunPlans::folder() const {
  const fs::path output = fs::absolute(output_).lexically_normal();
  if (study_.runs_of.empty()) return fs::path(output_) / "runs";
  const fs::path beside =
      output.has_filename() ? output.parent_path() : output.parent_path().parent_path();
  return beside / (study_.runs_of + (study_.scale.empty() ? "" : "-" + study_.scale)) / "runs";
}

void RunPlans::begin(const Variant& variant, std::int64_t seed, const PlannedRun& planned) const {
  const std::string start = planned.start(), aside = start + ".partial";
  create_directories(real_file_system(), planned.directory);
  // Another process may be making the same model. Training locks the folder in the same way.
  const FileLock lock(planned.directory + "/.lock");
  if (fs::exists(start)) return;  // the other process has made it meanwhile
  fs::remove_all(aside);
  hooks_.begin(beginning(variant, seed).model, variant.upcycle, planned.recipe, aside);
  fs::rename(aside, start);
}

}  // namespace penstock::study
