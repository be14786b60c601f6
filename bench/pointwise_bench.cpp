// Speed of the decoder's operators other than the large products, forward and backward, at the
// sizes of one layer of a d = 256 decoder over 16 × 256 tokens (or the sizes in the arguments).
// GB/s counts each float that an operator must read or write once.
#include <benchmark/benchmark.h>
#include <torch/types.h>

#include "penstock/ops/dispatch.h"
#include "penstock/ops/ops.h"

namespace {

using namespace penstock;

constexpr std::int64_t kBatch = 16, kLength = 256, kTokens = kBatch * kLength;

at::Tensor leaf(at::IntArrayRef sizes) { return torch::randn(sizes).set_requires_grad(true); }

/// Times only f(), or only its backward pass, and reports GB/s of `values` floats.
template <class Forward>
void measure(benchmark::State& state, bool backward, std::int64_t values, const Forward& f) {
  ops::set_threads(0);
  const at::Tensor seed = torch::randn_like(f().detach());
  for (auto _ : state) {
    if (!backward) {
      benchmark::DoNotOptimize(f());
      continue;
    }
    state.PauseTiming();
    const at::Tensor y = f();
    state.ResumeTiming();
    y.backward(seed);
  }
  state.SetBytesProcessed(state.iterations() * values * 4);
}

void rms_norm(benchmark::State& state) {
  const auto x = leaf({kTokens, 256}), gain = leaf({256});
  measure(state, state.range(0), x.numel() * (state.range(0) ? 3 : 2), [&] {
    x.mutable_grad() = gain.mutable_grad() = at::Tensor();
    return ops::rms_norm(x, gain, 1e-5);
  });
}
BENCHMARK(rms_norm)
    ->Arg(0)
    ->Arg(1)
    ->ArgName("backward")
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

void swiglu(benchmark::State& state) {
  const auto x = leaf({kTokens, 2048});
  measure(state, state.range(0), kTokens * 1024 * (state.range(0) ? 5 : 3), [&] {
    x.mutable_grad() = at::Tensor();
    return ops::swiglu(x);
  });
}
BENCHMARK(swiglu)
    ->Arg(0)
    ->Arg(1)
    ->ArgName("backward")
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

/// Training: the head, its loss and their gradients, all computed in the forward pass.
void linear_cross_entropy(benchmark::State& state) {
  ops::set_threads(0);
  const std::int64_t rows = state.range(0), width = state.range(1), vocabulary = state.range(2);
  const auto hidden = leaf({rows, width}), w = leaf({vocabulary, width});
  const auto targets = torch::randint(0, vocabulary, {rows}, at::kLong);
  for (auto _ : state) benchmark::DoNotOptimize(ops::linear_cross_entropy(hidden, w, targets));
  const double flops = 6.0 * static_cast<double>(rows * width * vocabulary);
  state.counters["FLOP/s"] = benchmark::Counter(flops * static_cast<double>(state.iterations()),
                                                benchmark::Counter::kIsRate);
}
BENCHMARK(linear_cross_entropy)
    ->ArgNames({"rows", "d", "vocabulary"})
    ->Args({kTokens, 256, 256})
    ->Args({kTokens, 256, 8192})
    ->Args({1024, 768, 51200})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

void embedding(benchmark::State& state) {
  const auto weight = leaf({state.range(1), 256});
  const auto ids = torch::randint(0, state.range(1), {kBatch, kLength}, at::kLong);
  measure(state, state.range(0), kTokens * 256 * 2, [&] {
    weight.mutable_grad() = at::Tensor();
    return ops::embedding(weight, ids);
  });
}
BENCHMARK(embedding)
    ->ArgNames({"backward", "vocabulary"})
    ->ArgsProduct({{0, 1}, {256, 8192}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

void adamw_step(benchmark::State& state) {
  ops::set_threads(0);
  const bool bf16 = state.range(0) != 0;  // whether the moments are bf16
  const at::ScalarType moments = bf16 ? at::kBFloat16 : at::kFloat;
  std::vector<at::Tensor> w, g, m, v;
  for (int i = 0; i < 16; ++i) {
    w.push_back(torch::randn({256, 1024}));
    g.push_back(torch::randn({256, 1024}));
    m.push_back(torch::zeros({256, 1024}, moments));
    v.push_back(torch::zeros({256, 1024}, moments));
  }
  const std::vector<double> decay(16, 0.1);
  for (auto _ : state) ops::adamw_step(w, g, m, v, decay, {.lr = 1e-3, .step = 10});
  // Weight, gradient and moments are read. All but the gradient are written.
  state.SetBytesProcessed(state.iterations() * 16 * 256 * 1024 * (3 * 4 + 4 * (bf16 ? 2 : 4)));
}
BENCHMARK(adamw_step)
    ->ArgName("bf16")
    ->Arg(0)
    ->Arg(1)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

void global_norm(benchmark::State& state) {
  ops::set_threads(0);
  const std::vector<at::Tensor> tensors(16, torch::randn({256, 1024}));
  for (auto _ : state) benchmark::DoNotOptimize(ops::global_norm(tensors));
  state.SetBytesProcessed(state.iterations() * 16 * 256 * 1024 * 4);
}
BENCHMARK(global_norm)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace

int main(int argc, char** argv) {
  penstock::ops::keep_freed_memory();  // as the program does
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
