#include "penstock/bench/step_bench.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "penstock/base/error.h"
#include "penstock/base/median.h"
#include "penstock/base/random.h"
#include "penstock/base/stopwatch.h"
#include "penstock/bench/active_experts.h"
#include "penstock/bench/lap_timer.h"
#include "penstock/bench/synthetic.h"
#include "penstock/models/batch_tensors.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/machine.h"
#include "penstock/ops/profile/stock_profile.h"
#include "penstock/train/initial_model.h"
#include "penstock/train/step/language_work.h"
#include "penstock/train/step/product_precision.h"

namespace penstock::bench {
namespace {

struct TimedStep {
  ProfiledStep profile;
  StepOutcome outcome;
};

/// Runs training steps of a recipe's model and optimizer on synthetic tokens.
class StepRunner {
 public:
  StepRunner(const Recipe& recipe, const BenchOptions& options)
      : recipe_(recipe),
        model_(build_model(recipe)),
        engine_(*model_, recipe.train.optimizer, router_lr_scale(recipe, *model_)),
        token_bytes_(static_cast<std::size_t>(recipe.model.vocab), 1) {
    if (options.active_experts > 0) active_.emplace(options.active_experts, model_->moe_layers());
    if (options.stock) stock_.emplace();
  }

  TimedStep run() {
    const std::int64_t step = engine_.step();
    const std::vector<Batch> batches = synthetic_step(recipe_, step);
    StepInput input{.total_steps = std::max(recipe_.train.steps, step + 1),
                    .draw_seed = mix64(static_cast<std::uint64_t>(step)),
                    .learning_rate = recipe_.train.optimizer.lr,
                    .precision = recipe_.train.precision};
    if (active_) {
      find_shifts(batches, input);
      active_->repeat();
    }
    LanguageWork work(*model_, batches, token_bytes_);
    profile_.clear();
    LapTimer watch;
    TimedStep out{.outcome = engine_.advance(work, input)};
    PENSTOCK_CHECK(out.outcome.failure.empty(), "step ", step + 1, ": ", out.outcome.failure,
                   "; lower train.lr");
    out.profile = {watch.lap(), profile_.operators(), profile_.scopes()};
    return out;
  }

 private:
  /// Finds the shifts in an untimed pass over the step's tokens.
  void find_shifts(const std::vector<Batch>& batches, const StepInput& input) {
    torch::NoGradGuard no_grad;
    RoutingContext context = engine_.context(input);
    active_->find();
    for (std::size_t m = 0; m < batches.size(); ++m) {
      context.generator = at::detail::createCPUGenerator(mix64(input.draw_seed + m));
      ModelInput tokens = to_tensors(batches[m], at::kCPU).input;
      if (!batches[m].fresh) tokens.memory = engine_.memory().at(m);
      model_->forward(tokens, context);
    }
  }

  Recipe recipe_;
  std::shared_ptr<LanguageModel> model_;
  StepEngine engine_;
  std::vector<std::int32_t> token_bytes_;
  std::optional<ActiveExperts> active_;
  ops::Profile profile_;
  std::optional<ops::StockProfile> stock_;
};

/// The readings of the timed steps.
class Readings {
 public:
  /// Allocates memory for the readings before the steps. Otherwise small blocks that outlive a step
  /// would lie between the tensors that the step frees. The next step's tensors would then not fit
  /// into the freed memory.
  explicit Readings(std::size_t steps) : profiles_(steps) {
    for (std::vector<double>* each : {&seconds_, &forward_, &backward_, &optimizer_, &rates_})
      each->reserve(steps);
  }

  /// Allocates memory for the profiles of steps that are like `step`.
  void take_room_for(const TimedStep& step) { profiles_.assign(profiles_.size(), step.profile); }

  /// Records the next step, and adds its part of the means to `out`.
  void add(const TimedStep& step, StepBench& out) {
    const auto& report = step.outcome.report;
    const auto steps = static_cast<double>(profiles_.size());
    const std::size_t index = seconds_.size();
    seconds_.push_back(step.profile.seconds);
    forward_.push_back(report.forward_seconds);
    backward_.push_back(report.backward_seconds);
    optimizer_.push_back(step.outcome.update_seconds);
    rates_.push_back(report.flops / step.profile.seconds);
    out.flops += report.flops / steps;
    out.active_experts += report.active_experts / steps;
    out.load = report.load;
    profiles_[index] = step.profile;
  }

  /// Writes the medians and the table of operators to `out`.
  void tell(StepBench& out) {
    out.seconds = median(seconds_);
    out.forward_seconds = median(forward_);
    out.backward_seconds = median(backward_);
    out.optimizer_seconds = median(optimizer_);
    out.useful_flops_per_second = median(rates_);
    out.tokens_per_second = static_cast<double>(out.tokens) / out.seconds;
    out.table = make_table(std::move(profiles_));
  }

 private:
  std::vector<double> seconds_, forward_, backward_, optimizer_, rates_;
  std::vector<ProfiledStep> profiles_;
};

}  // namespace

StepBench measure_step(const Recipe& recipe, const BenchOptions& options) {
  PENSTOCK_CHECK(options.steps > 0, "options.steps must be at least 1");
  if (options.active_experts > 0) check_active_experts(recipe, options.active_experts);
  StepBench out{.recipe = recipe.name,
                .tokens = recipe.train.batch_sequences * recipe.train.sequence_length,
                .steps = options.steps,
                .clock = options.clock(),
                .precision = recipe.train.precision};
  prepare_products(recipe);
  out.machine.threads = ops::set_threads(static_cast<int>(recipe.run.threads));
  ops::restart_peak_memory();
  const auto clock = options.read_clock(out.machine.threads);
  Readings readings(static_cast<std::size_t>(options.steps));
  {
    StepRunner runner(recipe, options);
    for (std::int64_t i = 0; i < options.warm_up; ++i) {
      const TimedStep step = runner.run();
      if (i > 0) continue;
      readings.take_room_for(step);
      out.load = step.outcome.report.load;
    }
    const auto peak = [&] {
      return ops::measure_peak_flops(out.machine.threads, 0.2, out.precision);
    };
    out.peak_before = peak();
    const std::int64_t preempted = preemptions();
    const Stopwatch watch;
    for (std::int64_t i = 0; i < options.steps; ++i) readings.add(runner.run(), out);
    const double seconds = watch.seconds();
    out.preempted_per_second = static_cast<double>(preemptions() - preempted) / seconds;
    out.peak_after = peak();
  }
  out.machine.peak_flops = (out.peak_before + out.peak_after) / 2;
  out.peak_bytes = ops::peak_resident_bytes();  // before the bandwidth's arrays are allocated
  out.machine.memory_bandwidth = options.bandwidth(out.machine.threads);
  readings.tell(out);
  return out;
}

}  // namespace penstock::bench
