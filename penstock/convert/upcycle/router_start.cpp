#include "penstock/convert/upcycle/router_start.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "penstock/base/error.h"
#include "penstock/base/random.h"
#include "penstock/convert/sample_windows.h"
#include "penstock/convert/upcycle/calibration.h"
#include "penstock/convert/upcycle/head_mixture.h"
#include "penstock/convert/upcycle/logit_scale.h"
#include "penstock/convert/upcycle/spherical_k_means.h"
#include "penstock/convert/upcycle/upcycled_config.h"
#include "penstock/models/counts/model_tensors.h"
#include "penstock/ops/initial_draws.h"
#include "penstock/routers/parameter_names.h"

namespace penstock {
namespace {

constexpr double kRouterStd = 0.02;                 // standard deviation of the published baselines
constexpr std::int64_t kMeansTokens = 4096;         // tokens whose inputs are held, for every layer
constexpr std::uint64_t kMeansStream = 0x6d65616e;  // stream of the draws for spherical means
constexpr const char* kOverText = " over a text: give options.calibration, a corpus or a text file";

/// Copies the rows of the first E' experts to all G virtual groups. If `whole`, the tensors have
/// rows of all E'·G experts; otherwise they have rows of E' experts.
void repeat_over_groups(RouterTensors& tensors, const ModelConfig& config, bool whole) {
  const std::int64_t groups = config.moe.granularity;
  if (groups == 1) return;
  const std::set<std::string> rows = scorer_of(config, 0)->rows_by_expert();
  PENSTOCK_CHECK(!rows.empty(), "options.granularity ", groups, ": scorer '",
                 resolve(config.router).scorer,
                 "' has no row of its own for each expert, so the shards of one feed-forward "
                 "cannot be chosen together; take another, or granularity 1");
  for (auto& [name, tensor] : tensors) {
    if (!rows.contains(name)) continue;
    const at::Tensor first = tensor.slice(0, 0, tensor.size(0) / (whole ? groups : 1));
    tensor = at::cat(std::vector<at::Tensor>(static_cast<std::size_t>(groups), first));
  }
}

double random_std(const ModelConfig& config) {
  return config.router.init_std > 0 ? config.router.init_std : kRouterStd;
}

std::vector<RouterTensors> random_starts(const ModelConfig& config, std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  const auto scorers = scorers_of(config);
  std::vector<RouterTensors> out;
  for (std::size_t layer = 0; layer < scorers.size(); ++layer) {
    scorers[layer]->initialize(random_std(config),
                               InitialDraws(seed).of(concat("router_start_", layer)));
    out.push_back(tensors_of(*scorers[layer]));
  }
  return out;
}

/// Makes Router Upcycling's routers of E' experts, and reports the heads and groups that make them.
class HeadRouters {
 public:
  /// @param queries  whether the routers hold their query maps, which are as large as the layer's
  HeadRouters(const ModelSource& parent, const UpcycleOptions& options, bool queries,
              UpcycleReport& report)
      : parent_(parent),
        options_(options),
        holds_queries_(queries),
        report_(report),
        routers_(options.routers > 0 ? options.routers : options.experts),
        keys_(options.keys > 0 ? options.keys : std::max(routers_, options.experts)) {}

  std::vector<RouterTensors> make(const at::Tensor& windows, const KeyCache& keys,
                                  const ConversionProgress& progress) {
    const auto means =
        keys.keys_of(parent_, windows,
                     {.after_rope = options_.keys_after_rope, .bias = options_.key_bias}, progress);
    const std::int64_t layers = parent_.config().layers;
    std::vector<RouterTensors> out;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      tell(progress, "routers of heads", static_cast<double>(layer) / static_cast<double>(layers));
      out.push_back(of_layer(layer, means[static_cast<std::size_t>(layer)]));
    }
    return out;
  }

 private:
  RouterTensors of_layer(std::int64_t layer, const at::Tensor& mean) {
    const std::int64_t parts = head_parts(mean.size(0), mean.size(1), routers_);
    const at::Tensor keys = split_heads(mean, parts);
    HeadGroups groups = group_heads(keys, routers_, keys_, options_.grouping);
    groups.parts = parts;
    RouterTensors tensors = mixture_of_heads(groups, query_weight(parent_, options_, layer),
                                             query_bias(parent_, options_, layer), keys);
    if (!holds_queries_) tensors.erase(kHeadQueries);
    const auto draws = InitialDraws(options_.seed).of(concat("ties_", layer));
    report_.tied.push_back(break_ties(tensors.at(kHeadKeys), draws));
    report_.similarity.push_back(key_similarity(keys));
    report_.groups.push_back(std::move(groups));
    return tensors;
  }

  const ModelSource& parent_;
  const UpcycleOptions& options_;
  bool holds_queries_;
  UpcycleReport& report_;
  std::int64_t routers_, keys_;
};

/// The standard deviation of numbers that are added in parts.
class Deviation {
 public:
  void add(const at::Tensor& values) {
    const at::Tensor v = values.to(at::kDouble);
    count_ += static_cast<double>(v.numel());
    sum_ += v.sum().item<double>();
    squares_ += v.square().sum().item<double>();
  }
  double value() const {
    const double mean = sum_ / count_;
    return std::sqrt(std::max(squares_ / count_ - mean * mean, 0.0));
  }

 private:
  double count_ = 0, sum_ = 0, squares_ = 0;
};

/// Sets the rows of E' experts in each layer's only matrix, for all virtual groups.
void set_rows(std::vector<RouterTensors>& routers, const std::vector<at::Tensor>& rows,
              std::int64_t groups) {
  for (std::size_t layer = 0; layer < routers.size(); ++layer)
    routers[layer].at(kScorerWeight) = rows[layer].to(at::kFloat).repeat({groups, 1});
}

/// The spherical means of each layer's inputs, [E', d] each, scaled to the length of random rows.
std::vector<at::Tensor> mean_rows(const ModelSource& parent, const ModelConfig& config,
                                  const at::Tensor& windows, const UpcycleOptions& options,
                                  UpcycleReport& report, const ConversionProgress& progress) {
  std::vector<std::vector<at::Tensor>> inputs(static_cast<std::size_t>(parent.config().layers));
  visit_feed_forward_inputs(
      parent, some_windows(windows, kMeansTokens),
      [&](std::int64_t layer, const at::Tensor& rows) {
        inputs[static_cast<std::size_t>(layer)].push_back(rows);
      },
      progress);
  const double length = random_std(config) * std::sqrt(static_cast<double>(config.d_model));
  std::vector<at::Tensor> out;
  for (std::size_t layer = 0; layer < inputs.size(); ++layer) {
    const SphericalKMeans means = spherical_k_means(at::cat(inputs[layer]), options.experts,
                                                    random_bits(options.seed, kMeansStream, layer));
    inputs[layer].clear();
    report.cluster_sizes.push_back(means.sizes);
    out.push_back(means.centres * length);
  }
  return out;
}

std::vector<RouterTensors> all_collapsed(const std::vector<RouterTensors>& heads) {
  std::vector<RouterTensors> out;
  for (const RouterTensors& layer : heads) out.push_back(collapsed_mixture(layer));
  return out;
}

/// Scales random linear routers. Afterwards, the logits of a layer over the calibration tokens, of
/// all experts together, have the standard deviation of Router Upcycling's logits.
void match_logit_scale(std::vector<RouterTensors>& random, const std::vector<RouterTensors>& heads,
                       const ModelSource& parent, const at::Tensor& windows, UpcycleReport& report,
                       const ConversionProgress& progress) {
  const std::vector<RouterTensors> collapsed = all_collapsed(heads);
  std::vector<Deviation> wanted(random.size()), found(random.size());
  visit_feed_forward_inputs(
      parent, windows,
      [&](std::int64_t at, const at::Tensor& inputs) {
        const auto layer = static_cast<std::size_t>(at);
        wanted[layer].add(folded_logits(collapsed[layer], inputs));
        found[layer].add(inputs.matmul(random[layer].at(kScorerWeight).t()));
      },
      progress);
  for (std::size_t layer = 0; layer < random.size(); ++layer) {
    at::Tensor& weight = random[layer].at(kScorerWeight);
    weight = weight * (wanted[layer].value() / std::max(found[layer].value(), 1e-30));
    report.logit_sd.push_back(wanted[layer].value());
  }
}

bool matches(const UpcycleOptions& options) { return options.match_logits || options.match_lr; }

/// Whether the calibration text is read. If it is only for weighing gates, it is optional.
bool reads_text(RouterDirections directions, bool weighed, const UpcycleOptions& options) {
  return directions != RouterDirections::random || matches(options) || options.start_entropy > 0 ||
         (weighed && !options.calibration.empty());
}

void check_starts(const ResolvedRouter& router, RouterDirections directions, bool weighed,
                  const UpcycleOptions& options) {
  const bool text = !options.calibration.empty();
  PENSTOCK_CHECK(text || (directions != RouterDirections::heads && !matches(options)),
                 "Router Upcycling makes keys of what the dense model's attention sees", kOverText);
  PENSTOCK_CHECK(text || directions != RouterDirections::kmeans,
                 "options.directions kmeans are means", kOverText);
  PENSTOCK_CHECK(text || options.start_entropy == 0, "options.start_entropy is measured",
                 kOverText);
  PENSTOCK_CHECK(text || !weighed || router.traits.gates != GateForm::relu,
                 "options.start parent makes the gates of selector '", router.selector,
                 "' sum to one in the mean", kOverText, "; or options.start published");
  PENSTOCK_CHECK(!options.match_logits || takes_rows(router),
                 "options.match_logits scales one random matrix that is trained; scorer '",
                 router.scorer, "' is another");
}

/// Windows of the calibration text. The report gets their sizes.
at::Tensor text_windows(const ModelSource& parent, const UpcycleOptions& options,
                        UpcycleReport& report) {
  const std::int64_t context = parent.config().context;
  PENSTOCK_CHECK(context <= 0 || options.calibration_window <= context, "calibration windows of ",
                 options.calibration_window, " tokens exceed the model's context of ", context,
                 "; take shorter ones");
  const at::Tensor out =
      sample_windows(options.calibration, parent,
                     {.tokens = options.calibration_tokens, .length = options.calibration_window});
  report.calibration_tokens = out.numel();
  report.calibration_window = out.size(1);
  return out;
}

double mean_lr_scale(const std::vector<RouterTensors>& heads) {
  double sum = 0;
  for (const RouterTensors& layer : heads) sum += effective_lr_scale(layer);
  return sum / static_cast<double>(heads.size());
}

std::vector<at::Tensor> weights_of(const std::vector<RouterTensors>& routers) {
  std::vector<at::Tensor> out;
  for (const RouterTensors& layer : routers) out.push_back(layer.at(kScorerWeight));
  return out;
}

}  // namespace

std::vector<RouterTensors> router_starts(const ModelSource& parent, const ModelConfig& config,
                                         const UpcycleOptions& options, UpcycleReport& report,
                                         const KeyCache& keys, const ConversionProgress& progress) {
  const torch::NoGradGuard no_grad;
  const ResolvedRouter router = resolve(config.router);
  const bool weighed = measures_gate_sums(config, options);
  const RouterDirections directions = router_directions(config, options);
  const bool of_heads = directions == RouterDirections::heads || matches(options);
  const bool are_heads = router.traits.of_heads && directions == RouterDirections::heads;
  check_starts(router, directions, weighed, options);
  std::vector<RouterTensors> heads;
  at::Tensor windows;
  if (reads_text(directions, weighed, options)) windows = text_windows(parent, options, report);
  if (of_heads) {
    // If nothing reads or changes the query maps now, they are made when they are written.
    const bool measured = !are_heads || options.collapsed || options.start_entropy > 0 ||
                          options.match_lr || weighed || router.traits.needs_matrix;
    heads = HeadRouters(parent, options, measured, report).make(windows, keys, progress);
    // Controls are matched to Router Upcycling's start after it is scaled.
    if (options.start_entropy > 0 && matches(options))
      heads_to_entropy(heads, parent, windows,  // groups repeat the first one's rows
                       options.start_entropy - std::log(static_cast<double>(options.granularity)),
                       progress);
  }
  if (options.match_lr) report.lr_scale = mean_lr_scale(heads);
  std::vector<RouterTensors> out =
      are_heads ? std::move(heads) : random_starts(config, options.seed);
  if (are_heads && options.collapsed) out = all_collapsed(out);
  for (RouterTensors& layer : out) repeat_over_groups(layer, config, /*whole=*/!are_heads);
  if (!are_heads && directions == RouterDirections::heads)
    set_rows(out, weights_of(all_collapsed(heads)), options.granularity);
  if (directions == RouterDirections::kmeans)
    set_rows(out, mean_rows(parent, config, windows, options, report, progress),
             options.granularity);
  // The rows that stay must be final by now, because their logits are matched.
  if (options.match_logits)
    match_logit_scale(out, heads, parent, windows, report, progress);
  else if (options.start_entropy > 0)
    scale_to_entropy(out, parent, config, windows, options, report, progress);
  if (weighed && windows.defined())
    measure_gate_sums(out, parent, config, windows, report, progress);
  return out;
}

}  // namespace penstock
