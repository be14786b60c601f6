#include "penstock/cli/info/study.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "penstock/base/json_text.h"
#include "penstock/base/number_text.h"
#include "penstock/base/progress.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/info/figures.h"
#include "penstock/cli/info/recipe_of_target.h"
#include "penstock/cli/study_arguments.h"
#include "penstock/study/config/study_config.h"

namespace penstock {
namespace {

void print_json(const study::StudyConfig& study) {
  ContentHashes hashes;  // several variants may start from one model
  nlohmann::ordered_json variants = nlohmann::ordered_json::object();
  for (const auto& variant : study.variants) {
    if (!variant.from.empty()) {  // the initial model determines the variant's shape
      variants[variant.name] = {{"from", variant.from}};
      continue;
    }
    const CountableRecipe counted = countable(variant.recipe, hashes);
    auto& figures = variants[variant.name] = figures_json(counted.recipe);
    if (counted.assumed) figures["assumed_vocabulary"] = kAssumedVocabulary;
  }
  const nlohmann::ordered_json out = {{"study", study.name},
                                      {"scale", study.scale},
                                      {"seeds", study.seeds},
                                      {"variants", variants}};
  fmt::print("{}\n", json_text(out, 2));
}

void print_table(const study::StudyConfig& study, const std::string& command) {
  fmt::print("study {}{}: {}, {}; run it with: {}\n\n", study.name,
             study.scale.empty() ? "" : ", scale " + study.scale,
             count_text(std::ssize(study.variants), "variant"),
             count_text(std::ssize(study.seeds), "seed"), command);
  fmt::print("{:<24} {:<14} {:>15} {:>15} {:>12} {:>9} {:>8}\n", "variant", "method", "parameters",
             "active", "MFLOP/token", "memory", "steps");
  ContentHashes hashes;  // several variants may start from one model
  bool assumed = false;
  for (const auto& variant : study.variants) {
    if (!variant.from.empty()) {
      fmt::print("{:<24} from {}{}\n", variant.name, variant.from,
                 variant.upcycle.empty() ? "" : ", upcycled");
      continue;
    }
    const auto [recipe, unknown] = countable(variant.recipe, hashes);
    assumed |= unknown;
    const Figures figures = figures_of(recipe);
    fmt::print("{:<24} {:<14} {:>15} {:>15} {:>12.2f} {:>5.0f} MiB {:>8}\n", variant.name,
               recipe.model.router.method, grouped(figures.counts.total),
               grouped(figures.counts.active), figures.flops_per_token / 1e6,
               mebibytes(figures.memory.total()),
               variant.match_compute.empty() ? grouped(recipe.train.steps) : "matched");
  }
  if (assumed) print_assumed_vocabulary();
}

}  // namespace

void print_study(const StudyQuestion& question, bool json) {
  const auto study =
      study::read_study(question.file, question.overrides, question.scale, read_toml, kSetOption);
  if (json) return print_json(study);
  print_table(study,
              command_line(
                  {.study = question.file, .scale = study.scale, .overrides = question.overrides}));
}

}  // namespace penstock
