// Tensors of a file that is written without ever holding them all.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/io/safetensors.h"

namespace penstock {

/// A tensor known by name, type and shape, made when it is written.
struct LazyTensor {
  std::string name;
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> shape;
  /// Of that shape; converted to `type` where it has another, and made dense.
  std::function<at::Tensor()> make;
};

/// Writes a safetensors file, one tensor in memory at a time; neither syncs nor closes.
/// Throws Error for a type that the format lacks, and where converting to `type` makes a finite
/// value infinite. REQUIRES: `make` gives the shape (asserted).
void write_lazy_tensors(OutputFile& file, std::vector<LazyTensor> tensors,
                        const Metadata& metadata = {});

}  // namespace penstock
