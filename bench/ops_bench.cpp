// Speed of linear, expert_ffn and attention, forward and training step, in GFLOP/s of useful work
// and as a share of the FMA peak measured before and after each benchmark in the same process.
//   build/release/bin/ops_bench [--benchmark_filter=...]
#include <benchmark/benchmark.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "penstock/base/random.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/machine.h"
#include "penstock/ops/ops.h"

namespace penstock {
namespace {

int threads() {
  static const int count = [] {
    ops::keep_freed_memory();
    return ops::set_threads(0);
  }();
  return count;
}

/// Runs `step` and reports its useful FLOP/s and their share of the peak of the same minute.
template <class Step>
void measure(benchmark::State& state, double flops, const Step& step) {
  double peak = ops::measure_peak_flops(threads());
  for (int i = 0; i < 3; ++i) step();
  for (auto _ : state) step();
  peak = std::max(peak, ops::measure_peak_flops(threads()));
  using benchmark::Counter;
  state.counters["GFLOP/s"] = Counter(flops * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["peak"] = peak * 1e-9;
  state.counters["share"] = Counter(flops / peak, Counter::kIsIterationInvariantRate);
}

/// A linear layer over `rows` rows, from `in` to `out` features.
void linear(benchmark::State& state) {
  const auto rows = state.range(0), in = state.range(1), out = state.range(2);
  const bool training = state.range(3) != 0;
  auto x = torch::randn({rows, in}).set_requires_grad(training);
  auto w = torch::randn({out, in}).set_requires_grad(training);
  const auto dy = torch::randn({rows, out});
  const torch::AutoGradMode mode(training);
  measure(state, 2.0 * rows * in * out * (training ? 3 : 1), [&] {
    const auto y = ops::linear(x, w);
    if (training) benchmark::DoNotOptimize(torch::autograd::grad({y}, {x, w}, {dy}));
  });
}

/// expert_ffn of T = 4096 tokens, each sent to k of E random experts.
void expert_ffn(benchmark::State& state) {
  const auto experts = state.range(0), k = state.range(1), d = state.range(2), f = state.range(3);
  const bool training = state.range(4) != 0;
  const std::int64_t tokens = 4096;
  std::vector<std::vector<std::int64_t>> by_expert(experts);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<std::int64_t> order(experts);
    for (std::int64_t e = 0; e < experts; ++e) order[e] = e;
    shuffle(order, 1, t);
    for (std::int64_t i = 0; i < k; ++i) by_expert[order[i]].push_back(t);
  }
  std::vector<std::int64_t> token, offsets{0};
  for (const auto& rows : by_expert) {
    token.insert(token.end(), rows.begin(), rows.end());
    offsets.push_back(static_cast<std::int64_t>(token.size()));
  }
  const auto tokens_of = torch::tensor(token, torch::kLong);
  // The sort is stable, so a token's assignments stay in expert order.
  const auto by_token = std::get<1>(tokens_of.sort(/*stable=*/true, 0, false));
  const auto token_offsets = torch::arange(0, tokens * k + 1, k);
  const auto offsets_of = torch::tensor(offsets, torch::kLong);
  auto hidden = torch::randn({tokens, d}).set_requires_grad(training);
  auto weight = torch::rand({tokens * k}).set_requires_grad(training);
  auto w_in = (torch::randn({experts, 2 * f, d}) * 0.05).set_requires_grad(training);
  auto w_out = (torch::randn({experts, d, f}) * 0.05).set_requires_grad(training);
  const auto dy = torch::randn({tokens, d});
  const torch::AutoGradMode mode(training);
  measure(state, 6.0 * tokens * k * d * f * (training ? 3 : 1), [&] {
    const auto y = ops::expert_ffn(hidden, weight, tokens_of, offsets_of, by_token, token_offsets,
                                   w_in, w_out);
    if (training)
      benchmark::DoNotOptimize(torch::autograd::grad({y}, {hidden, weight, w_in, w_out}, {dy}));
  });
}

/// B sequences of T tokens, H = 8 query and G = 4 key heads, rotated; forward or backward alone.
/// The useful products are those of the unmasked half: two in the forward pass, four in the
/// backward pass. The scores that the backward pass computes again do not count.
void attention(benchmark::State& state) {
  const bool backward = state.range(0) != 0;
  const auto batch = state.range(1), length = state.range(2), hd = state.range(3);
  const std::int64_t heads = 8, kv_heads = 4;
  const auto qkv =
      torch::randn({batch, length, (heads + 2 * kv_heads) * hd}).set_requires_grad(true);
  const auto rotation = ops::rotation_table(length, hd, 1e4);
  const auto run = [&] {
    return ops::causal_attention(qkv, heads, kv_heads, 1 / std::sqrt(static_cast<double>(hd)),
                                 rotation);
  };
  const auto y = run(), dy = torch::randn_like(y);
  const torch::AutoGradMode mode(backward);
  measure(state, 2.0 * (backward ? 4 : 2) * batch * heads * hd * length * (length + 1) / 2, [&] {
    if (backward)
      benchmark::DoNotOptimize(torch::autograd::grad({y}, {qkv}, {dy}, /*retain_graph=*/true));
    else
      benchmark::DoNotOptimize(run());
  });
}

BENCHMARK(linear)
    ->ArgNames({"rows", "in", "out", "train"})
    ->ArgsProduct({{4096}, {256}, {256, 2048}, {0, 1}})
    ->Args({4096, 1024, 256, 1})
    ->Args({1024, 768, 3072, 0})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(expert_ffn)
    ->ArgNames({"E", "k", "d", "f", "train"})
    ->Args({8, 1, 256, 1024, 0})
    ->Args({8, 1, 256, 1024, 1})
    ->Args({16, 2, 256, 512, 1})
    ->Args({64, 8, 256, 128, 0})
    ->Args({64, 8, 256, 128, 1})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
// Processor time, because other programs on the core do not change it for one thread.
BENCHMARK(attention)
    ->ArgNames({"backward", "B", "T", "hd"})
    ->ArgsProduct({{0, 1}, {16}, {256}, {32, 64}})
    ->ArgsProduct({{0, 1}, {4}, {1024}, {64}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  penstock::ops::keep_freed_memory();  // as the program does; otherwise page faults dominate
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
