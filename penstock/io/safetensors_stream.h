// Writes safetensors files tensor by tensor: first the header, which needs only shapes, then each
// tensor's bytes as they are made, so that a file may be larger than memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/io/safetensors.h"

namespace penstock {

/// A tensor whose bytes are made when the writer reaches it.
struct StreamedTensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;
  std::function<void(OutputFile&)> write;  ///< writes exactly the shape's bytes, row-major
};

/// Writes the tensors in the order of write_safetensors(); calls each `write` once. Neither syncs
/// nor closes the file. REQUIRES: names differ, sizes do not overflow, and each `write` writes its
/// bytes (asserted). Throws Error, before anything is written, if the header is larger than
/// kLargestSafetensorsHeader.
void write_safetensors_stream(OutputFile& file, std::vector<StreamedTensor> tensors,
                              const Metadata& metadata);

}  // namespace penstock
