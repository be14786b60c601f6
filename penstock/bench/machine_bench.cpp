#include "penstock/bench/machine_bench.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <nlohmann/json.hpp>

#include "penstock/base/fields.h"
#include "penstock/base/stopwatch.h"
#include "penstock/base/threads.h"
#include "penstock/ops/machine/product_unit.h"
#include "penstock/ops/ops.h"

namespace penstock::bench {
namespace {

struct ProductShape {
  std::int64_t rows, in, out;
};

/// FLOPs per second of the fastest of 8 calls.
double product_rate(const ProductShape& shape) {
  torch::NoGradGuard no_grad;
  const at::Tensor x = torch::randn({shape.rows, shape.in}),
                   w = torch::randn({shape.out, shape.in});
  const double flops = 2.0 * static_cast<double>(shape.rows * shape.in * shape.out);
  double best = 0;
  for (int call = 0; call < 8; ++call) {
    const Stopwatch watch;
    ops::linear(x, w);
    best = std::max(best, flops / watch.seconds());
  }
  return best;
}

}  // namespace

MachineBench measure_machine(int threads) {
  MachineBench out;
  out.instruction_set = ops::instruction_set();
  out.processor = cpu_name();
  out.blas = ops::torch_blas();
  out.last_level_cache = ops::last_level_cache_bytes();
  out.limits.threads = threads;
  out.peak_flops_per_core = ops::measure_peak_flops(1);
  out.limits.peak_flops = ops::measure_peak_flops(threads);
  for (const auto unit : {ops::ProductUnit::avx512, ops::ProductUnit::amx})
    if (ops::available(unit)) out.unit_bf16 = word(unit);
  if (!out.unit_bf16.empty())
    out.peak_flops_bf16 = ops::measure_peak_flops(threads, 0.2, ops::ProductPrecision::bf16);
  for (const ProductShape& shape :
       {ProductShape{1024, 768, 3072}, ProductShape{4096, 256, 1024}, ProductShape{4096, 1024, 256},
        ProductShape{2048, 2048, 2048}}) {
    const double flops = product_rate(shape);
    if (flops <= out.matmul_flops) continue;
    out.matmul_flops = flops;
    out.matmul_shape = fmt::format("{} x {} x {}", shape.rows, shape.in, shape.out);
  }
  out.memory_bandwidth_core = ops::measure_memory_bandwidth(1);
  out.limits.memory_bandwidth = ops::measure_memory_bandwidth(threads);
  return out;
}

nlohmann::ordered_json to_json(const MachineBench& machine) {
  const nlohmann::ordered_json bf16 =
      machine.peak_flops_bf16 ? nlohmann::ordered_json(*machine.peak_flops_bf16) : nullptr;
  return {{"processor", machine.processor},
          {"instruction_set", word(machine.instruction_set)},
          {"threads", machine.limits.threads},
          {"peak_flops", machine.limits.peak_flops},
          {"peak_flops_per_core", machine.peak_flops_per_core},
          {"peak_flops_bf16", bf16},
          {"unit_bf16", bf16.is_null() ? bf16 : nlohmann::ordered_json(machine.unit_bf16)},
          {"memory_bandwidth", machine.limits.memory_bandwidth},
          {"memory_bandwidth_per_core", machine.memory_bandwidth_core},
          {"matmul_flops", machine.matmul_flops},
          {"matmul_shape", machine.matmul_shape},
          {"last_level_cache", machine.last_level_cache},
          {"blas", machine.blas.name},
          {"blas_library", machine.blas.library}};
}

std::string to_text(const MachineBench& m) {
  return fmt::format(
      "{}, {}, {} thread{}, last cache {:.0f} MiB\n"
      "fused multiply-adds  {:8.1f} GFLOP/s  ({:.1f} one core)\n"
      "the same in bf16     {}\n"
      "matrix product       {:8.1f} GFLOP/s  {:.0f} % of it, at {}\n"
      "memory (triad)       {:8.1f} GB/s     ({:.1f} one core)\n"
      "an operator is bound by memory below {:.0f} FLOPs a byte\n"
      "libtorch multiplies through {}{}{}\n",
      m.processor, word(m.instruction_set), m.limits.threads, m.limits.threads == 1 ? "" : "s",
      m.last_level_cache / (1 << 20), m.limits.peak_flops / 1e9, m.peak_flops_per_core / 1e9,
      m.peak_flops_bf16
          ? fmt::format("{:8.1f} GFLOP/s  ({})", *m.peak_flops_bf16 / 1e9, m.unit_bf16)
          : "    none: neither AMX nor AVX512-BF16",
      m.matmul_flops / 1e9, 100 * m.matmul_flops / m.limits.peak_flops, m.matmul_shape,
      m.limits.memory_bandwidth / 1e9, m.memory_bandwidth_core / 1e9,
      m.limits.peak_flops / m.limits.memory_bandwidth, m.blas.name,
      m.blas.library.empty() ? "" : ", " + m.blas.library,
      m.blas.name == ops::kReferenceBlas ? ": slow; install libopenblas0-openmp" : "");
}

}  // namespace penstock::bench
