#include "penstock/analysis/router_gradient.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"
#include "penstock/data/corpus/batches.h"
#include "penstock/models/batch_tensors.h"

namespace penstock::analysis {
namespace {

constexpr std::int64_t kGraphTokens = 1024;  // most tokens whose graph is held at a time
constexpr std::uint64_t kDraws = 1;          // seed of dropout and of stochastic routers

/// During its life, the module is in training mode and gradients are recorded. The destructor
/// restores both.
class TrainingMode {
 public:
  explicit TrainingMode(torch::nn::Module& module)
      : module_(module), was_training_(module.is_training()) {
    module_.train();
  }
  ~TrainingMode() { module_.train(was_training_); }
  TrainingMode(const TrainingMode&) = delete;
  TrainingMode& operator=(const TrainingMode&) = delete;

 private:
  at::AutoGradMode with_gradient_{true};
  torch::nn::Module& module_;
  bool was_training_;
};

at::Tensor as_double(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, at::kDouble).contiguous();
}

/// The gradient of a scalar for each input; zeros if the scalar does not depend on the input.
std::vector<at::Tensor> gradients(const at::Tensor& root, const std::vector<at::Tensor>& inputs,
                                  bool keep_graph) {
  std::vector<at::Tensor> out, reached;
  for (const at::Tensor& input : inputs)
    if (input.requires_grad()) reached.push_back(input);
  std::vector<at::Tensor> found(reached.size());
  if (root.requires_grad() && !reached.empty())
    found = torch::autograd::grad({root}, reached, {}, keep_graph, false, true);
  auto next = found.begin();
  for (const at::Tensor& input : inputs) {
    const at::Tensor gradient = input.requires_grad() ? *next++ : at::Tensor();
    out.push_back(as_double(gradient.defined() ? gradient : at::zeros_like(input)));
  }
  return out;
}

/// Σ_e g_te by token [T].
at::Tensor gate_sums(const Plan& plan) {
  return at::zeros({plan.tokens}, plan.weight.options()).index_add(0, plan.token, plan.weight);
}

/// Sums over all passes for one layer.
class LayerSums {
 public:
  LayerSums(MoeLayer& layer) : layer_(layer), traits_(layer.router().traits()) {}

  /// Records a pass. Computes the gradient of its gates' sum for the logits while the graph exists.
  void see(const RoutingResult& result) {
    hidden_ = as_double(result.hidden);
    logits_ = result.scores.logits;
    const at::Tensor sums = as_double(gate_sums(result.plan));
    out_.gate_sum.add(sums);
    out_.log_gate_sum.add(sums.index({sums.gt(0)}).log());
    // If gates always sum to one, the gradient of their sum is only rounding error.
    const bool constant = traits_.unit_gates && !traits_.drops;
    along_ = constant ? at::zeros(logits_.sizes(), at::kDouble)
                      : gradients(result.plan.weight.sum(), {logits_}, true)[0];
  }
  const at::Tensor& logits() const { return logits_; }

  /// Adds the pass that see() recorded.
  /// @param gradient [T, E] f64, of the pass's share of the loss
  void add(const at::Tensor& gradient) {
    const at::Tensor norm = along_.norm(2, 1, true);  // [T, 1]
    const at::Tensor unit = along_ / norm.masked_fill(norm.eq(0), 1);
    along_squares_ += (gradient * unit).sum(1).square().sum().item<double>();
    squares_ += gradient.square().sum().item<double>();
    if (traits_.foldable) {
      const at::Tensor product = gradient.t().matmul(hidden_);  // [E, d]
      matrix_ = matrix_.defined() ? matrix_ + product : product;
    }
    logits_ = at::Tensor();
  }

  RouterGradient finish() {
    out_.logits = std::sqrt(squares_);
    if (squares_ > 0 && !traits_.estimates_gradient)
      out_.along_gate_sum = along_squares_ / squares_;
    if (traits_.foldable)
      out_.matrix = split_gradient(matrix_, layer_.router().scorer().fold().weight);
    return std::move(out_);
  }

 private:
  MoeLayer& layer_;
  const RouterTraits& traits_;
  at::Tensor hidden_, logits_, along_;  // of the current pass: [T, d], [T, E], [T, E]
  at::Tensor matrix_;                   // [E, d], sum over passes
  double squares_ = 0, along_squares_ = 0;
  RouterGradient out_;
};

}  // namespace

std::string declines_router_gradient(const ModelConfig& config) {
  const ResolvedRouter router = resolve(config.router);
  if (router.traits.no_logits)
    return concat("scorer '", router.scorer,
                  "' gives no logits: there is nothing to take a "
                  "gradient of");
  if (router.traits.merges)
    return concat("selector '", router.selector,
                  "' scores segments, so no token has logits or gates of its own");
  if (router.traits.ignores_logits)
    return concat("selector '", router.selector, "' does not use the logits");
  return "";
}

SplitGradient split_gradient(const at::Tensor& gradient, const at::Tensor& weight) {
  const at::Tensor g = as_double(gradient), w = as_double(weight);
  SplitGradient out{.weight_norm = w.norm().item<double>()};
  const double squares = g.square().sum().item<double>();
  if (out.weight_norm > 0) out.size = (g * w).sum().item<double>() / out.weight_norm;
  out.direction = std::sqrt(std::max(squares - out.size * out.size, 0.0));
  return out;
}

std::vector<RouterGradient> router_gradients(LanguageModel& model, const Corpus& corpus,
                                             const RouterGradientOptions& options) {
  PENSTOCK_ASSERT(declines_router_gradient(model.config()).empty(), "refused first");
  const TrainingMode training(model);
  const at::Device device = model.parameters().front().device();
  const EvaluationWindows windows(
      corpus, options.split,
      {.sequence_length = options.sequence_length,
       .batch_sequences = std::max<std::int64_t>(1, kGraphTokens / options.sequence_length),
       .max_tokens = options.tokens});
  std::vector<LayerSums> layers;
  for (MoeLayer* const layer : model.moe_layers()) layers.emplace_back(*layer);
  RoutingContext context{
      .step = options.step, .total_steps = options.total_steps, .training = true};
  context.generator = at::detail::createCPUGenerator(kDraws);
  for (std::int64_t i = 0; i < windows.batches(); ++i) {
    BatchTensors batch = to_tensors(windows.batch(i), device);
    batch.input.memory_length = 0;
    const at::Tensor hidden = model
                                  .forward(batch.input, context,
                                           [&](std::int64_t index, const RoutingResult& result) {
                                             layers[static_cast<std::size_t>(index)].see(result);
                                           })
                                  .hidden;
    const double share =
        static_cast<double>(batch.targets.numel()) / static_cast<double>(windows.tokens());
    std::vector<at::Tensor> logits;
    for (const LayerSums& layer : layers) logits.push_back(layer.logits());
    const auto found = gradients(share * model.loss(hidden, batch.targets), logits, false);
    for (std::size_t l = 0; l < layers.size(); ++l) layers[l].add(found[l]);
  }
  std::vector<RouterGradient> out;
  for (LayerSums& layer : layers) out.push_back(layer.finish());
  return out;
}

}  // namespace penstock::analysis
