// Writes named torch tensors to safetensors files and reads them, bit for bit. It does not know
// models or their tensors' names.
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

/// Writes the tensors to an open file. It neither syncs nor closes the file. Tensors may have any
/// device and layout. Each is stored dense and row-major, even if two share memory.
/// Throws Error for a dtype that the format lacks.
/// Cost: a copy of one tensor at a time, for tensors that are not contiguous on the CPU.
void write_tensors(OutputFile& file, const TensorMap& tensors, const Metadata& metadata = {});

/// Writes the tensors as one file. The file is complete or absent.
void save_tensors(FileSystem& fs, const std::filesystem::path& path, const TensorMap& tensors,
                  const Metadata& metadata = {});

/// Copies of all tensors of a .safetensors file, an index of shards, or a directory with either.
/// Throws Error if a file is damaged (see SafetensorsFile).
TensorMap load_tensors(const std::filesystem::path& path);

/// The same, but tensors use the memory of the mapped file if their alignment there allows it.
/// Nobody may write to them. They take memory only while they are read.
TensorMap map_tensors(const std::filesystem::path& path);

/// A copy of one tensor, on the CPU.
at::Tensor to_tensor(const TensorView& view);

/// The format's type for a torch type.
/// Throws Error that names the tensor if the format has none.
Dtype stored_dtype(const std::string& name, at::ScalarType type);

/// The number of data bytes of all tensors together.
std::uint64_t tensor_bytes(const TensorMap& tensors);

}  // namespace penstock
