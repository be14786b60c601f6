#include "penstock/bench/layer_bench.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <memory>
#include <optional>

#include "penstock/base/error.h"
#include "penstock/base/median.h"
#include "penstock/base/random.h"
#include "penstock/bench/active_experts.h"
#include "penstock/bench/synthetic.h"
#include "penstock/layers/feed_forward.h"
#include "penstock/layers/moe.h"
#include "penstock/models/counts/flops.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/machine.h"
#include "penstock/ops/profile/stock_profile.h"
#include "penstock/routers/step_statistics.h"
#include "penstock/train/step/layer_step.h"
#include "penstock/train/step/product_precision.h"

namespace penstock::bench {
namespace {

struct TimedLayer {
  ProfiledStep profile;
  LayerStepOutcome step;
  double active = 0;    ///< assignments without those of idle experts
  double computed = 0;  ///< all assignments
  std::vector<double> load;
};

/// The first MoE layer of a recipe, or a dense one, with its optimizer.
class LayerRunner {
 public:
  LayerRunner(const Recipe& recipe, std::int64_t tokens, const LayerBenchOptions& options)
      : recipe_(recipe),
        module_(build(recipe)),
        step_(
            *module_, [this](const auto& x, const auto& context) { return forward(x, context); },
            recipe.train.optimizer) {
    if (options.active_experts > 0)
      active_.emplace(options.active_experts, std::vector<MoeLayer*>{moe_.get()});
    if (options.stock) stock_.emplace();
    const std::int64_t length = recipe.train.sequence_length;
    PENSTOCK_CHECK(tokens % length == 0 || tokens < length, "options.tokens ", tokens,
                   " is not a multiple of train.sequence_length = ", length);
    const std::int64_t row = std::min(tokens, length);
    const std::vector<std::int64_t> shape = {tokens / row, row, recipe.model.d_model};
    x_ = torch::randn(shape).set_requires_grad(true);
    gradient_ = torch::randn(shape);
    ids_ = torch::randint(std::max<std::int64_t>(2, recipe.model.vocab), {tokens}, torch::kInt64);
  }

  TimedLayer run() {
    RoutingContext context;
    context.step = steps_;
    context.total_steps = std::max(recipe_.train.steps, steps_ + 1);
    context.training = true;
    context.token_ids = ids_;
    const std::uint64_t seed = mix64(static_cast<std::uint64_t>(steps_++));
    if (active_) {
      torch::NoGradGuard no_grad;
      active_->find();
      context.generator = at::detail::createCPUGenerator(seed);
      moe_->forward(x_, context);
      active_->repeat();
    }
    context.generator = at::detail::createCPUGenerator(seed);
    x_.mutable_grad() = at::Tensor();
    profile_.clear();
    TimedLayer out{.step = step_.advance(x_, gradient_, context, recipe_.train.optimizer.lr)};
    LayerStepOutcome& step = out.step;
    PENSTOCK_CHECK(step.update.failure.empty(), "step ", steps_, ": ", step.update.failure,
                   "; lower train.lr");
    if (moe_) moe_->after_step();
    out.profile = {step.forward_seconds + step.backward_seconds + step.update_seconds,
                   profile_.operators(), profile_.scopes()};
    if (moe_) count(step.output.routing.plan, out);
    step.output = {};  // frees its graph
    return out;
  }

 private:
  std::shared_ptr<torch::nn::Module> build(const Recipe& recipe) {
    const InitialDraws draws(static_cast<std::uint64_t>(recipe.train.seed));
    const ModelConfig& model = recipe.model;
    if (model.moe_layers() > 0) {
      moe_ = std::make_shared<MoeLayer>(model.moe_options(0));
      moe_->initialize(draws);
      return moe_;
    }
    dense_ = std::make_shared<FeedForward>(model.d_model, model.d_ffn, model.ffn_form());
    dense_->initialize(model.init_std, model.init_std, draws);
    return dense_;
  }

  MoeOutput forward(const at::Tensor& x, const RoutingContext& context) {
    return moe_ ? moe_->forward(x, context) : MoeOutput{dense_->forward(x), {}};
  }

  static void count(const Plan& plan, TimedLayer& out) {
    const auto tokens = static_cast<double>(plan.tokens);
    out.active = plan.merges() ? tokens : static_cast<double>(active_assignments(plan));
    out.computed = plan.merges() ? tokens : static_cast<double>(plan.assignments());
    for (const std::int64_t assigned : plain_counts(plan))
      out.load.push_back(static_cast<double>(assigned) / tokens);
  }

  Recipe recipe_;
  std::shared_ptr<MoeLayer> moe_;  // this or dense_ is set
  std::shared_ptr<FeedForward> dense_;
  std::shared_ptr<torch::nn::Module> module_;
  LayerStep step_;
  std::optional<ActiveExperts> active_;
  at::Tensor x_, gradient_, ids_;
  ops::Profile profile_;
  std::optional<ops::StockProfile> stock_;
  std::int64_t steps_ = 0;
};

/// Useful FLOPs of one MoE layer, or of the dense layer, counted as in useful_training_flops: 3
/// times the forward pass, for forward and backward.
double useful_flops(const ModelConfig& model, const ModelMultiplyAdds& multiply_adds, double tokens,
                    double assignments) {
  const auto layers = static_cast<double>(model.moe_layers());
  if (layers == 0) return 6 * tokens * multiply_adds.dense / static_cast<double>(model.layers);
  return 6 * (tokens * (multiply_adds.shared + multiply_adds.routing) / layers +
              assignments * multiply_adds.expert);
}

}  // namespace

LayerBench measure_layer(const Recipe& recipe, const LayerBenchOptions& options) {
  PENSTOCK_CHECK(options.steps > 0, "options.steps must be at least 1");
  check_bench(recipe);
  if (options.active_experts > 0) check_active_experts(recipe, options.active_experts);
  const bool moe = recipe.model.moe_layers() > 0;
  LayerBench out{.tokens = options.tokens > 0
                               ? options.tokens
                               : recipe.train.micro_batch * recipe.train.sequence_length,
                 .steps = options.steps,
                 .clock = options.clock(),
                 .d_model = recipe.model.d_model,
                 .d_ffn = moe ? recipe.model.expert_width() : recipe.model.d_ffn,
                 .experts = moe ? recipe.model.total_experts() : 0};
  out.machine.threads = ops::set_threads(static_cast<int>(recipe.run.threads));
  const auto clock = options.read_clock(out.machine.threads);
  std::vector<double> forward, backward, optimizer, rates;
  std::vector<ProfiledStep> profiles;
  {
    prepare_products(recipe);
    const ops::PrecisionScope products(recipe.train.precision);
    LayerRunner runner(recipe, out.tokens, options);
    const ModelMultiplyAdds multiply_adds(recipe.model);
    for (std::int64_t i = 0; i < options.warm_up; ++i) runner.run();
    const auto peak = [&] {
      return ops::measure_peak_flops(out.machine.threads, 0.2, recipe.train.precision);
    };
    out.machine.peak_flops = peak();
    for (std::int64_t i = 0; i < options.steps; ++i) {
      TimedLayer step = runner.run();
      const double passes = step.step.forward_seconds + step.step.backward_seconds;
      forward.push_back(step.step.forward_seconds);
      backward.push_back(step.step.backward_seconds);
      optimizer.push_back(step.step.update_seconds);
      const double flops =
          useful_flops(recipe.model, multiply_adds, static_cast<double>(out.tokens), step.computed);
      rates.push_back(flops / passes);
      out.useful_flops += flops / static_cast<double>(options.steps);
      out.active_experts +=
          step.active / static_cast<double>(out.tokens) / static_cast<double>(options.steps);
      out.load = std::move(step.load);
      profiles.push_back(std::move(step.profile));
    }
    out.machine.peak_flops = (out.machine.peak_flops + peak()) / 2;
  }
  out.machine.memory_bandwidth = options.bandwidth(out.machine.threads);
  out.forward_seconds = median(forward);
  out.backward_seconds = median(backward);
  out.optimizer_seconds = median(optimizer);
  out.useful_flops_per_second = median(rates);
  out.table = make_table(std::move(profiles));
  return out;
}

}  // namespace penstock::bench
