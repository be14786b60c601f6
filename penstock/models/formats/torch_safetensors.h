// Named torch tensors to and from safetensors files, bit for bit. Knows nothing of models or names.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "penstock/base/file_system.h"
#include "penstock/io/safetensors.h"

namespace penstock {

using TensorMap = std::map<std::string, at::Tensor>;

/// Writes the tensors to an open file; neither syncs nor closes. Any device and layout; each tensor
/// is stored dense and row-major, also where two share memory.
/// Throws Error for a dtype that the format lacks. Cost: one tensor's copy at a time where it is
/// not on the CPU and contiguous.
void write_tensors(OutputFile& file, const TensorMap& tensors, const Metadata& metadata = {});

/// The tensors as one file, complete or absent.
void save_tensors(FileSystem& fs, const std::filesystem::path& path, const TensorMap& tensors,
                  const Metadata& metadata = {});

/// Copies of all tensors of a .safetensors file, an index of shards, or a directory with either.
/// Throws Error for anything that is not a sound file (see SafetensorsFile).
TensorMap load_tensors(const std::filesystem::path& path);

/// The same, but the memory is that of the mapped file wherever a tensor lies in it as it has to:
/// nobody may write to it, and it takes memory only while it is read.
TensorMap map_tensors(const std::filesystem::path& path);

/// A copy of one tensor, on the CPU.
at::Tensor to_tensor(const TensorView& view);

/// The format's type for a tensor's; throws Error, naming the tensor, where it has none.
Dtype stored_dtype(const std::string& name, at::ScalarType type);

/// Data bytes of all tensors together.
std::uint64_t tensor_bytes(const TensorMap& tensors);

}  // namespace penstock
