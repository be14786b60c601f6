// Writes the tensors of a file without ever holding all of them in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/io/safetensors.h"

namespace penstock {

/// A tensor with a known name, type and shape. It is made when it is written.
struct LazyTensor {
  std::string name;
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> shape;
  /// Makes a tensor of that shape. The writer converts it to `type` if necessary and makes it
  /// dense.
  std::function<at::Tensor()> make;
};

/// Writes a safetensors file with one tensor in memory at a time. It neither syncs nor closes the
/// file.
/// Throws Error if the format lacks a type, or if converting to `type` makes a finite value
/// infinite.
/// REQUIRES: `make` gives the shape (asserted).
void write_lazy_tensors(OutputFile& file, std::vector<LazyTensor> tensors,
                        const Metadata& metadata = {});

}  // namespace penstock
