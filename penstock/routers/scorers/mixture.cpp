// Router Upcycling's scorer: several routers. Each router is a query map, and its queries are
// multiplied with all keys of the experts. penstock/convert computes the maps and keys of an
// upcycled model.
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/optional_tensor.h"
#include "penstock/routers/parameter_names.h"
#include "penstock/routers/registry.h"

namespace penstock::mixture {

enum class Pool { sum, max };
constexpr std::array<std::string_view, 2> words(Pool) { return {"sum", "max"}; }

enum class Form { factored, collapsed };
constexpr std::array<std::string_view, 2> words(Form) { return {"factored", "collapsed"}; }

struct Config {
  std::int64_t routers = 0;
  std::int64_t keys = 0;
  std::int64_t width = 0;
  Pool pool = Pool::sum;
  bool bias = false;
  Form parameterisation = Form::factored;

  template <class V>
  void visit(V& v) {
    v("routers", routers,
      {.help = "number m of query maps; 0: the number of experts", .min = 0, .max = 65536});
    v("keys", keys,
      {.help = "number of keys of all experts together, at least one per expert; 0: one per "
               "expert, the only setting that folds into one matrix",
       .min = 0,
       .max = 1 << 20});
    v("width", width,
      {.help = "width d' of queries and keys; 0: d_model / routers", .min = 0, .max = 65536});
    v("pool", pool, {.help = "an expert's score: the sum or the maximum over the routers"});
    v("bias", bias, {.help = "add biases to the query maps"});
    v("parameterisation", parameterisation,
      {.help = "factored: train query maps and keys; collapsed: train the one matrix that they "
               "fold into, as a control"});
  }
  void check(const RouterShape& shape) const {
    PENSTOCK_CHECK(keys == 0 || keys >= shape.experts, "model.router.mixture.keys = ", keys,
                   " for ", shape.experts, " experts: each needs one; set it to 0, or higher");
    PENSTOCK_CHECK(
        parameterisation == Form::factored ||
            (pool == Pool::sum && (keys == 0 || keys == shape.experts)),
        "model.router.mixture.parameterisation = \"collapsed\": with max pooling or more "
        "keys than experts a mixture is no one matrix");
  }
  void refine(ScorerTraits& traits) const { traits.foldable = pool == Pool::sum && keys == 0; }
};

/// The number of keys of each expert. Key i belongs to expert ⌊i·E / keys⌋.
std::vector<std::int64_t> keys_by_expert(std::int64_t keys, std::int64_t experts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(experts), 0);
  for (std::int64_t key = 0; key < keys; ++key)
    ++counts[static_cast<std::size_t>(key * experts / keys)];
  return counts;
}

/// S_i^j = Q^j·K_i / √d',  Q^j = W^j x + b^j, for every router j and every key i.
/// pool "sum": s_i = Σ_j S_i^j;  "max": s_i = max_j S_i^j.
/// An expert's logit is the s of its key. With more keys than experts it is the highest s of the
/// expert's keys; key i belongs to expert ⌊i·E / keys⌋.
///
/// Parameters: `queries` [m, d', d] ~ N(0, std²); `keys` [keys, d'] ~ N(0, 1/m); with a bias
/// `query_bias` [m, d'], which starts at 0. Under "sum" logits then start with the variance of a
/// linear router's logits. This start is our choice; the paper always upcycles.
/// collapsed: `weight` [E, d] = K·Σ_j W^j / √d', and with a bias `bias` [E]. The function and its
/// start are the same; the trained parameters differ.
///
/// Under "sum", Σ_j W^j is computed first, so a token costs d·d' + d'·keys multiply-adds for any m.
/// Gradient: hidden, queries, keys, biases. Source: Router Upcycling, Eq. 4-8 and sections 5.2.1
/// (several keys), 5.2.2 (max pooling). The paper has no bias (Eq. 6).
class Mixture : public Scorer {
 public:
  Mixture(const RouterShape& shape, const Config& config)
      : experts_(shape.experts),
        routers_(config.routers > 0 ? config.routers : shape.experts),
        key_count_(config.keys > 0 ? config.keys : shape.experts),
        width_(config.width > 0 ? config.width
                                : std::max<std::int64_t>(1, shape.d_model / routers_)),
        d_model_(shape.d_model),
        max_pool_(config.pool == Pool::max),
        bias_(config.bias),
        collapsed_(config.parameterisation == Form::collapsed) {
    if (!collapsed_) {
      queries_ = register_parameter(kHeadQueries, at::empty({routers_, width_, d_model_}));
      keys_ = register_parameter(kHeadKeys, at::empty({key_count_, width_}));
      if (bias_) query_bias_ = register_parameter(kHeadQueryBias, at::empty({routers_, width_}));
      return;
    }
    weight_ = register_parameter(kScorerWeight, at::empty({experts_, d_model_}));
    if (bias_) folded_bias_ = register_parameter(kScorerBias, at::empty({experts_}));
  }

  Scores score(const at::Tensor& hidden, const RoutingContext&) override {
    if (collapsed_) return {.logits = ops::linear(hidden, weight_, ops::if_defined(folded_bias_))};
    at::Tensor scores;  // [T, keys]
    if (max_pool_) {
      const at::Tensor queries =  // [T·m, d']
          ops::linear(hidden, queries_.view({-1, d_model_}),
                      bias_ ? std::optional(query_bias_.view({-1})) : std::nullopt)
              .view({-1, width_});
      scores = ops::linear(queries, scaled_keys()).view({-1, routers_, key_count_}).amax(1);
    } else {
      const at::Tensor query = ops::linear(hidden, queries_.sum(0), summed_bias());  // [T, d']
      scores = ops::linear(query, scaled_keys());
    }
    return {.logits = key_count_ == experts_ ? scores : highest_key(scores)};
  }
  FoldedScorer fold() const override {
    PENSTOCK_ASSERT(one_matrix(), "a mixture under max pooling, or of several keys, does not fold");
    const torch::NoGradGuard no_grad;
    if (collapsed_) return {.weight = weight_.detach(), .bias = detached(folded_bias_)};
    FoldedScorer out{.weight = product(queries_, keys_)};
    if (bias_) out.bias = scaled_keys().mv(query_bias_.sum(0));
    return out;
  }
  void initialize(double std, const InitialDraws& draws) override {
    const torch::NoGradGuard no_grad;
    const double key_std = 1 / std::sqrt(static_cast<double>(routers_));
    if (!collapsed_) {
      draws.normal(kHeadQueries, queries_, std);
      draws.normal(kHeadKeys, keys_, key_std);
      if (bias_) query_bias_.zero_();
      return;
    }
    const auto options = weight_.options().requires_grad(false);
    const at::Tensor queries = at::empty({routers_, width_, d_model_}, options),
                     keys = at::empty({key_count_, width_}, options);
    draws.normal(kHeadQueries, queries, std);
    draws.normal(kHeadKeys, keys, key_std);
    weight_.copy_(product(queries, keys));
    if (bias_) folded_bias_.zero_();
  }
  /// Scales the keys: every score is linear in its key.
  bool scale_logits(double factor) override {
    const torch::NoGradGuard no_grad;
    for (at::Tensor tensor : {keys_, weight_, folded_bias_})
      if (tensor.defined()) tensor.mul_(factor);
    return true;
  }
  /// Values kept: the queries. If an expert's logit is the highest of several scores, also the
  /// scores and the indices of the highest.
  std::int64_t kept_per_token() const override {
    if (collapsed_) return 0;
    const std::int64_t sets = max_pool_ ? routers_ : 1;
    const bool highest = max_pool_ || key_count_ > experts_;
    return sets * (width_ + (highest ? 2 * key_count_ : 0));
  }
  std::set<std::string> rows_by_expert() const override {
    return {kHeadKeys, kScorerWeight, kScorerBias};
  }
  std::int64_t multiply_adds_per_token() const override {
    if (collapsed_) return weight_.numel();
    return (max_pool_ ? routers_ : 1) * width_ * (d_model_ + key_count_);
  }

 private:
  bool one_matrix() const { return !max_pool_ && key_count_ == experts_; }
  at::Tensor scaled_keys() const { return keys_ / std::sqrt(static_cast<double>(width_)); }
  std::optional<at::Tensor> summed_bias() const {
    return query_bias_.defined() ? std::optional(query_bias_.sum(0)) : std::nullopt;
  }
  /// K·Σ_j W^j / √d', [E, d].
  static at::Tensor product(const at::Tensor& queries, const at::Tensor& keys) {
    return (keys / std::sqrt(static_cast<double>(keys.size(1)))).matmul(queries.sum(0));
  }
  at::Tensor highest_key(const at::Tensor& scores) const {
    std::vector<at::Tensor> columns;
    for (const at::Tensor& own : scores.split_with_sizes(keys_by_expert(key_count_, experts_), 1))
      columns.push_back(own.amax(1));  // [T]
    return at::stack(columns, 1);
  }
  static at::Tensor detached(const at::Tensor& tensor) {
    return tensor.defined() ? tensor.detach() : tensor;
  }

  std::int64_t experts_, routers_, key_count_, width_, d_model_;
  bool max_pool_, bias_, collapsed_;
  at::Tensor queries_, keys_, query_bias_;  // [m, d', d], [keys, d'], [m, d'] or undefined
  at::Tensor weight_, folded_bias_;         // collapsed: [E, d], [E] or undefined
};

static const RegisterScorer<Mixture, Config> registered{
    "mixture",
    "several query maps against keys of the experts, their scores summed or the highest taken",
    "Router Upcycling, section 3, Eq. 4-8",
    {.foldable = true, .of_heads = true}};

}  // namespace penstock::mixture
