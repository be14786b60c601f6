#include "penstock/eval/oracle.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/eval/passes.h"
#include "penstock/models/batch_tensors.h"
#include "penstock/models/evaluation_mode.h"
#include "penstock/models/routing_choice.h"

namespace penstock {
namespace {

constexpr double kTie = 1e-6;    // relative increase of a logit
constexpr double kNoise = 1e-6;  // nats; differences caused by the order of sums
constexpr int kSettlings = 5;    // most halvings of a sequence's changes

/// C(n, k), or kMostOracleChoices + 1 if C(n, k) is larger.
std::int64_t count_choices(std::int64_t n, std::int64_t k) {
  std::int64_t out = 1;
  for (std::int64_t i = 1; i <= std::min(k, n - k); ++i) {
    out = out * (n - i + 1) / i;
    if (out > kMostOracleChoices) return kMostOracleChoices + 1;
  }
  return out;
}

/// All choices of k of n experts, [C, n] bool.
at::Tensor all_choices(std::int64_t n, std::int64_t k) {
  std::vector<char> chosen(static_cast<std::size_t>(n));  // no vector<bool>: it has no references
  std::fill(chosen.begin(), chosen.begin() + k, 1);
  std::vector<at::Tensor> out;
  do {
    at::Tensor& row = out.emplace_back(at::zeros({n}, at::kBool));
    for (std::int64_t e = 0; e < n; ++e)
      row.data_ptr<bool>()[e] = chosen[static_cast<std::size_t>(e)] != 0;
  } while (std::ranges::prev_permutation(chosen).found);
  return at::stack(out);
}

/// Permutes the values of each row: the k experts of the mask get the k highest values, and the
/// other experts get the rest. Both groups keep the order of their experts. If the k-th value
/// equals the next one, the k highest values are raised by kTie. A row without experts in the mask
/// is unchanged.
/// @param logits [T, E], mask [T, E] bool
at::Tensor handed_out(const at::Tensor& logits, const at::Tensor& mask, std::int64_t k) {
  const auto [values, order] = logits.sort(/*stable=*/true, 1, /*descending=*/true);
  const at::Tensor last = mask.gather(1, order).logical_not().to(at::kInt);
  const at::Tensor moved = order.gather(1, std::get<1>(last.sort(/*stable=*/true, 1, false)));
  at::Tensor given = values;
  if (k < logits.size(1)) {
    const at::Tensor tied = values.select(1, k - 1).eq(values.select(1, k));  // [T]
    const at::Tensor raised = tied.logical_and(mask.any(1)).unsqueeze(1).to(values.dtype());
    given = values.clone();
    given.narrow(1, 0, k).add_(raised * kTie * (1 + values.narrow(1, 0, k).abs()));
  }
  return at::empty_like(logits).scatter_(1, moved, given);
}

/// A scorer whose logits are permuted so that the experts of a mask are chosen.
class ForcedScorer : public Scorer {
 public:
  ForcedScorer(std::shared_ptr<Scorer> scorer, std::int64_t k)
      : scorer_(std::move(scorer)), k_(k) {}

  Scores score(const at::Tensor& hidden, const RoutingContext& context) override {
    Scores scores = scorer_->score(hidden, context);
    if (mask.defined())
      scores.logits = handed_out(scores.logits, mask.to(scores.logits.device()), k_);
    return scores;
  }
  void initialize(double std, const InitialDraws& draws) override {
    scorer_->initialize(std, draws);
  }
  std::int64_t multiply_adds_per_token() const override {
    return scorer_->multiply_adds_per_token();
  }
  const std::shared_ptr<Scorer>& own() const { return scorer_; }

  at::Tensor mask;  ///< [T, E] bool; undefined: logits are unchanged

 private:
  std::shared_ptr<Scorer> scorer_;
  std::int64_t k_;
};

/// During its life, the choices of a model's routers can be set by masks, and the model is in
/// evaluation mode.
class ForcedModel {
 public:
  ForcedModel(LanguageModel& model, std::int64_t k) : model_(model), measuring_(model) {
    for (MoeLayer* const layer : model.moe_layers())
      layer->router().wrap_scorer([this, k](std::shared_ptr<Scorer> scorer) {
        return forced_.emplace_back(std::make_shared<ForcedScorer>(std::move(scorer), k));
      });
  }
  ~ForcedModel() {
    for (std::size_t l = 0; l < forced_.size(); ++l)
      model_.moe_layers()[l]->router().wrap_scorer(
          [&](const std::shared_ptr<Scorer>&) { return forced_[l]->own(); });
  }
  ForcedModel(const ForcedModel&) = delete;
  ForcedModel& operator=(const ForcedModel&) = delete;

  std::size_t layers() const { return forced_.size(); }
  at::Tensor& mask(std::size_t layer) { return forced_[layer]->mask; }
  void forget() {
    for (const auto& forced : forced_) forced->mask = at::Tensor();
  }
  /// −ln p of each target, [B, T] f64.
  at::Tensor nats(const BatchTensors& batch, const RoutingContext& context) {
    const at::Tensor& tokens = batch.input.tokens;
    return score_pass(model_, batch.input, batch.targets, tokens.size(1), context)
        .nats.view(tokens.sizes());
  }

 private:
  LanguageModel& model_;
  EvaluationMode measuring_;
  std::vector<std::shared_ptr<ForcedScorer>> forced_;
};

/// For each row, the `changed` positions with the highest gains; `share` of them, rounded up.
at::Tensor highest(const at::Tensor& changed, const at::Tensor& gain, double share) {
  const at::Tensor rank = gain.argsort(1, /*descending=*/true).argsort(1, /*descending=*/false);
  const at::Tensor most = (changed.sum(1, true) * share).ceil();  // [B, 1]
  return changed.logical_and(rank < most);
}

/// Runs the oracle on one batch.
class BatchOracle {
 public:
  BatchOracle(ForcedModel& model, BatchTensors batch, const RoutingContext& context,
              const at::Tensor& choices)
      : model_(model), batch_(std::move(batch)), context_(context), choices_(choices) {
    model_.forget();
    nats = model_.nats(batch_, context_);
  }

  /// Improves the choices of one layer.  @return share of the tokens whose choice changed
  double improve(std::size_t layer) {
    at::Tensor best = nats, choice = at::full(nats.sizes(), -1, at::kLong);
    for (std::int64_t c = 0; c < choices_.size(0); ++c) {
      model_.mask(layer) = choices_[c].expand({nats.numel(), choices_.size(1)});
      const at::Tensor tried = model_.nats(batch_, context_);
      const at::Tensor better = tried + kNoise < best;
      best = tried.where(better, best);
      choice = at::full_like(choice, c).where(better, choice);
    }
    return settle(layer, choice, nats - best);
  }

  at::Tensor nats;  ///< [B, T] with the choices so far

 private:
  /// The mask of the chosen experts at the kept positions. It is empty elsewhere, where the model's
  /// own experts stay.
  at::Tensor mask_of(const at::Tensor& choice, const at::Tensor& kept) const {
    const at::Tensor index = choice.clamp_min(0).flatten();
    return choices_.index_select(0, index).logical_and(kept.flatten().unsqueeze(1));
  }

  /// Keeps as many of each sequence's changes as lower the sequence's loss: all of them, or the
  /// half with the highest gains, and so on.  @return share of the tokens whose choice changed
  double settle(std::size_t layer, const at::Tensor& choice, const at::Tensor& gain) {
    const at::Tensor changed = choice.ge(0);
    at::Tensor settled = at::zeros_like(changed);        // [B, T], changes that are kept
    at::Tensor open = changed.any(1, /*keepdim=*/true);  // [B, 1], sequences still tried
    for (int i = 0; i <= kSettlings && open.any().item<bool>(); ++i) {
      const at::Tensor kept = highest(changed, gain, std::pow(0.5, i)).logical_and(open);
      model_.mask(layer) = mask_of(choice, settled.logical_or(kept));
      const at::Tensor tried = model_.nats(batch_, context_);
      const at::Tensor falls = open.logical_and(tried.sum(1, true) < nats.sum(1, true));
      settled = settled.logical_or(kept.logical_and(falls));
      nats = tried.where(falls, nats);
      open = open.logical_and(falls.logical_not());
    }
    model_.mask(layer) = mask_of(choice, settled);
    return settled.to(at::kDouble).mean().item<double>();
  }

  ForcedModel& model_;
  BatchTensors batch_;
  const RoutingContext& context_;
  const at::Tensor& choices_;
};

void add(LossTotals& totals, const at::Tensor& nats, std::int64_t bytes) {
  totals.nats += nats.sum().item<double>();
  totals.tokens += nats.numel();
  totals.bytes += bytes;
}

std::int64_t bytes_of(const Batch& batch, std::span<const std::int32_t> token_bytes) {
  std::int64_t out = 0;
  for (const std::int64_t target : batch.targets)
    out += token_bytes[static_cast<std::size_t>(target)];
  return out;
}

}  // namespace

std::string why_no_oracle(const ModelConfig& config) {
  if (const std::string reason = why_no_k(config); !reason.empty()) return reason;
  const RouterTraits traits = config.traits();
  if (traits.drops) return "experts have a capacity, so a token's choice is not its own matter";
  if (traits.biases_choice) return "a bias moves the choice of experts";
  if (config.has_memory()) return "choices in one segment change the memory of the next";
  const auto k = static_cast<std::int64_t>(config.active_experts());
  if (count_choices(config.total_experts(), k) > kMostOracleChoices)
    return concat(k, " of ", config.total_experts(), " experts can be chosen in more than ",
                  kMostOracleChoices, " ways");
  return "";
}

void check_oracle(const ModelConfig& config) {
  const std::string reason = why_no_oracle(config);
  PENSTOCK_CHECK(reason.empty(), "options.oracle_routing: no oracle can choose, for ", reason);
}

double OracleRouting::gap() const {
  return layers.empty() ? 0 : own.loss() - layers.back().total.loss();
}

nlohmann::ordered_json to_json(const OracleRouting& oracle) {
  nlohmann::ordered_json out = {{"k", oracle.k},
                                {"choices", oracle.choices},
                                {"tokens", oracle.own.tokens},
                                {"own_loss", oracle.own.loss()},
                                {"loss", oracle.own.loss() - oracle.gap()},
                                {"gap", oracle.gap()},
                                {"layers", nlohmann::ordered_json::array()}};
  for (const OracleLayer& layer : oracle.layers)
    out["layers"].push_back({{"layer", layer.layer},
                             {"model_layer", layer.model_layer},
                             {"loss", layer.total.loss()},
                             {"gap", oracle.own.loss() - layer.total.loss()},
                             {"changed", layer.changed},
                             {"exact", layer.exact}});
  return out;
}

OracleRouting oracle_routing(LanguageModel& model, const Corpus& corpus,
                             const EvaluateOptions& options,
                             const std::function<void(double done)>& progress) {
  const ModelConfig& config = model.config();
  check_oracle(config);
  const auto k = static_cast<std::int64_t>(config.active_experts());
  const at::Tensor choices = all_choices(config.total_experts(), k);
  const EvaluationWindows windows(
      corpus, options.split,
      {.sequence_length = options.sequence_length,
       .batch_sequences = options.batch_sequences,
       .max_tokens =
           options.max_tokens > 0 ? std::min(options.max_tokens, kOracleTokens) : kOracleTokens,
       .isolate_documents = options.isolate_documents});
  ForcedModel forced(model, k);
  OracleRouting out{.k = k, .choices = choices.size(0)};
  const std::vector<std::int64_t> numbers = config.moe_layer_indices();
  for (std::size_t l = forced.layers(); l-- > 0;)
    out.layers.push_back({.layer = static_cast<std::int64_t>(l),
                          .model_layer = numbers.at(l),
                          .exact = l + 1 == forced.layers() && config.is_moe(config.layers - 1)});
  const auto all = static_cast<double>(windows.batches() * std::ssize(out.layers));
  double done = 0;
  for (std::int64_t i = 0; i < windows.batches(); ++i) {
    const Batch batch = windows.batch(i);
    const std::int64_t bytes = bytes_of(batch, corpus.token_bytes());
    BatchOracle oracle(forced, to_tensors(batch, model.parameters().front().device()),
                       options.context, choices);
    add(out.own, oracle.nats, bytes);
    for (OracleLayer& layer : out.layers) {
      layer.changed += oracle.improve(static_cast<std::size_t>(layer.layer)) *
                       static_cast<double>(batch.targets.size());
      add(layer.total, oracle.nats, bytes);
      if (progress) progress(++done / all);
    }
  }
  for (OracleLayer& layer : out.layers)
    layer.changed /= static_cast<double>(std::max<std::int64_t>(1, out.own.tokens));
  return out;
}

}  // namespace penstock
