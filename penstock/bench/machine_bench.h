// Measures the machine: FMA peak, memory bandwidth and the best matrix product.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "penstock/bench/operator_table.h"
#include "penstock/ops/machine/blas.h"
#include "penstock/ops/machine/machine.h"

namespace penstock::bench {

struct MachineBench {
  MachineLimits limits;
  double peak_flops_per_core = 0;         ///< one thread alone
  std::optional<double> peak_flops_bf16;  ///< all threads; none without bf16 products
  std::string unit_bf16;                  ///< for bf16 products: "amx-bf16", "avx512-bf16" or ""
  double memory_bandwidth_core = 0;       ///< one thread alone
  double matmul_flops = 0;                ///< the best of a few shapes in ops::linear, all threads
  std::string matmul_shape;               ///< "rows x in x out" of the best product
  ops::InstructionSet instruction_set = ops::InstructionSet::plain;
  std::string processor;
  ops::Blas blas;               ///< libtorch's
  double last_level_cache = 0;  ///< bytes
};

/// @param threads  as ops::set_threads() returned
MachineBench measure_machine(int threads);

/// Everything measured, as `penstock bench machine --json` prints it.
nlohmann::ordered_json to_json(const MachineBench& machine);
/// The same for people, as a few lines.
std::string to_text(const MachineBench& machine);

}  // namespace penstock::bench
