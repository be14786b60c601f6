#include "penstock/train/recompute_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/models/counts/flops.h"

namespace penstock {
namespace {

/// Computes the first `whole` layers again whole, and the experts of the next layers, up to layer
/// `experts`.
/// @param within  whether the whole layers compute their experts again within them
Recomputation of_first(const ModelConfig& config, std::int64_t whole, std::int64_t experts,
                       bool within) {
  Recomputation out(static_cast<std::size_t>(config.layers), Recomputed::nothing);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    Recomputed& what = out[static_cast<std::size_t>(i)];
    if (i < whole)
      what = within && config.is_moe(i) ? Recomputed::layer_and_experts : Recomputed::layer;
    else if (i < experts && config.is_moe(i))
      what = Recomputed::experts;
  }
  return out;
}

/// The most values tried for a number of layers. Each choice costs a count of every layer.
constexpr std::int64_t kCounts = 128;

/// Calls look(layers) with every choice that is considered, beginning with the fewest layers.
template <class Look>
void each_choice(const Recipe& recipe, const ModelConfig& config, bool alike, const Look& look) {
  const std::int64_t layers = config.layers,
                     step = alike ? layers : (layers + kCounts - 1) / kCounts;
  std::vector<std::int64_t> counts;
  for (std::int64_t count = 0; count < layers; count += step) counts.push_back(count);
  counts.push_back(layers);
  const bool moe = config.moe_layers() > 0;
  // With train.recompute_experts the experts of all layers are computed again.
  const std::int64_t least = !moe || recipe.train.recompute_experts ? layers : 0;
  for (const std::int64_t whole : counts)
    for (const std::int64_t experts : counts) {
      if (experts < std::max(whole, least)) continue;
      for (const bool within : {false, true}) {
        if (within ? !moe || whole == 0 : whole > 0 && recipe.train.recompute_experts && moe)
          continue;
        look(of_first(config, whole, experts, within));
      }
    }
}

std::string text_of_layers(const std::vector<std::int64_t>& layers) {
  std::string out;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    out += out.empty() ? "" : ", ";
    out += i == last ? fmt::format("{}", layers[i]) : fmt::format("{}-{}", layers[i], layers[last]);
    i = last + 1;
  }
  return (layers.size() == 1 ? "layer " : "layers ") + out;
}

}  // namespace

double bytes_of_text(const std::string& text, const std::string& key) {
  if (text.empty()) return 0;
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  static const std::map<std::string_view, double> units = {
      {"", 1},     {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
      {"kB", 1e3}, {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
  const auto found = units.find(unit);
  PENSTOCK_CHECK(
      error == std::errc() && found != units.end() && std::isfinite(number) && number > 0, key,
      " = \"", text,
      "\" is no amount of memory; write \"700 MiB\", \"12 GiB\" or a number of bytes");
  return number * found->second;
}

RecomputeChoice choose_recomputation(const Recipe& recipe, const ActivationCount& count,
                                     const RankShare& rank) {
  const ModelConfig& config = recipe.model;
  const double budget = bytes_of_text(recipe.train.memory_budget, "train.memory_budget");
  const auto counted = [&](Recomputation layers) {
    const auto [of_layers, besides] = count.of(layers);
    return RecomputeChoice{.layers = std::move(layers),
                           .activation_bytes = of_layers * rank.share_of_layers + besides,
                           .again = count.flops_again(layers)};
  };
  RecomputeChoice out =
      counted(recipe.train.recompute_experts ? recomputed_experts(config) : Recomputation());
  if (budget > 0) {
    RecomputeChoice smallest = out;
    double fewest = std::numeric_limits<double>::infinity();
    each_choice(recipe, config, rank.alike, [&](Recomputation layers) {
      RecomputeChoice one = counted(std::move(layers));
      if (one.activation_bytes < smallest.activation_bytes) smallest = one;
      if (rank.others + one.activation_bytes > budget || one.again >= fewest) return;
      fewest = one.again;
      out = std::move(one);
    });
    if (std::isinf(fewest)) out = smallest;
    out.fits = !std::isinf(fewest);
    out.least_bytes = rank.others + smallest.activation_bytes;
  }
  const double useful =
      nominal_training_flops(config, recipe.train.micro_batch, recipe.train.sequence_length);
  out.again = count.flops_again(out.layers) * forward_passes(config) / useful;
  return out;
}

void check_memory_budget(const Recipe& recipe, const RecomputeChoice& choice) {
  const bool small = choice.least_bytes < 10 * 0x1p20;
  const std::string least =
      fmt::format("{:.0f} {}", std::ceil(choice.least_bytes / (small ? 0x1p10 : 0x1p20)),
                  small ? "KiB" : "MiB");
  PENSTOCK_CHECK(choice.fits, "train.memory_budget = \"", recipe.train.memory_budget,
                 "\": training takes ", least,
                 " with all layers computed again in the backward pass; give at least \"", least,
                 "\", or lower train.micro_batch or train.sequence_length");
}

std::string recomputed_layers_text(const Recomputation& layers) {
  std::vector<std::int64_t> whole, experts, within;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    const Recomputed what = layers[i];
    if (recomputes_layer(what)) whole.push_back(layer);
    if (what == Recomputed::experts) experts.push_back(layer);
    if (what == Recomputed::layer_and_experts) within.push_back(layer);
  }
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : ", ") + text; };
  if (!whole.empty()) add(text_of_layers(whole) + " whole");
  if (!within.empty()) add("their experts once more");
  if (!experts.empty()) add("the experts of " + text_of_layers(experts));
  return out.empty() ? "nothing" : out;
}

std::string recomputation_text(const RecomputeChoice& choice) {
  const std::string layers = recomputed_layers_text(choice.layers);
  if (layers == recomputed_layers_text({})) return layers;
  return fmt::format("{}; {:.0f} % more FLOPs", layers, 100 * choice.again);
}

}  // namespace penstock
