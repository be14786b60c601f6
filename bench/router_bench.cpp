// Speed of a router's forward pass from logits to plan and losses, and of its backward pass to the
// logits. Selector and balancers are measured; the scorer's product is not. Times are for T = 4096
// tokens and one layer.
//   build/release/bin/router_bench [--benchmark_filter=...]
#include <benchmark/benchmark.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/ops/dispatch.h"
#include "penstock/routers/registry.h"

namespace {

using namespace penstock;

constexpr std::int64_t kTokens = 4096;

/// Runs selector `select` and its balancers. On average, `active` logits of each row are positive.
void route(benchmark::State& state, const char* select, const std::vector<const char*>& balancing,
           double active) {
  static const int threads = ops::set_threads(0);
  benchmark::DoNotOptimize(threads);
  const std::int64_t experts = state.range(0);
  const bool training = state.range(2) != 0;
  const RouterShape shape{.experts = experts, .k = static_cast<double>(state.range(1))};
  const ConfigNode none{ConfigNode::Table{}};
  const auto selector = selector_registry().at(select).make(shape, none);
  std::vector<std::shared_ptr<Balancer>> balancers;
  for (const char* name : balancing)
    balancers.push_back(balancer_registry().at(name).make(shape, none));
  torch::manual_seed(1);
  const double above = active > 0 ? active / static_cast<double>(experts) : 0.5;
  const at::Tensor shift =
      torch::erfinv(torch::tensor(2 * above - 1, at::kDouble)) * std::sqrt(2.0);
  const at::Tensor z =
      (torch::randn({kTokens, experts}) + shift.item<double>()).set_requires_grad(training);
  const RoutingContext context{.step = 3, .total_steps = 10, .training = training};
  const torch::AutoGradMode mode(training);
  at::Tensor probe;
  for (auto _ : state) {
    const Scores scores{.logits = z};
    Plan plan = selector->select(scores, context);
    plan.k = shape.k;
    benchmark::DoNotOptimize(plan);
    if (!training) continue;
    if (!probe.defined()) probe = torch::randn_like(plan.weight);
    std::vector<at::Tensor> outputs{plan.weight}, seeds{probe};
    for (const auto& balancer : balancers) {
      outputs.push_back(balancer->balance(scores, plan, context).loss);
      seeds.push_back(torch::ones_like(outputs.back()));
    }
    benchmark::DoNotOptimize(torch::autograd::grad(outputs, {z}, seeds));
  }
}

void topk(benchmark::State& state) { route(state, "topk", {"load-balance", "z-loss"}, 0); }
void relu(benchmark::State& state) {
  route(state, "relu", {"adaptive-l1"}, static_cast<double>(state.range(1)));
}
void relu_dense(benchmark::State& state) { route(state, "relu", {"adaptive-l1"}, 0); }

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"E", "k", "train"})
      ->ArgsProduct({{8}, {1}, {0, 1}})
      ->ArgsProduct({{64, 512}, {8}, {0, 1}})
      ->Unit(benchmark::kMicrosecond);
}
BENCHMARK(topk)->Apply(sizes);
BENCHMARK(relu)->Apply(sizes);
BENCHMARK(relu_dense)->Apply(sizes);

}  // namespace

int main(int argc, char** argv) {
  penstock::ops::keep_freed_memory();  // as the program does
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
