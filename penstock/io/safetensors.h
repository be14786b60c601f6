// Reads and writes safetensors files: named tensors as raw little-endian bytes after a JSON header.
// It neither uses torch nor knows models. Tensors are views into the mapped file.
// Source: the format's description at https://github.com/huggingface/safetensors (2023).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/base/mapped_file.h"

namespace penstock {

/// The format's limit for the bytes of a header, which names every tensor.
inline constexpr std::uint64_t kLargestSafetensorsHeader = 100'000'000;

enum class Dtype { kBool, kU8, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64 };

/// The format's name of a type: "BF16".
std::string_view dtype_name(Dtype dtype);
/// Bytes of one element.
std::size_t dtype_bytes(Dtype dtype);

/// A tensor's description and a view of its bytes.
struct TensorView {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;  // product(shape) · dtype_bytes, row-major
};

using Metadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<TensorView> tensors;  // sorted by name
  Metadata metadata;
};

/// Reads the header at the beginning of `file`; the views point into `file`.
/// Throws Error with `origin` unless: the header fits the file and 100 MB; it is a JSON object
/// without repeated names; every entry has a known dtype, a shape of non-negative sizes without
/// overflow, and offsets of exactly that many bytes; and the tensors fill the rest of the file
/// without gap or overlap.
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& origin);

/// A mapped and checked file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  const std::vector<TensorView>& tensors() const { return header_.tensors; }
  const Metadata& metadata() const { return header_.metadata; }
  /// The tensor of that name, or null.
  const TensorView* find(std::string_view name) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
};

/// Writes the tensors, widest type first, then by name, so that each begins at a multiple of its
/// element size and equal contents give equal files. Neither syncs nor closes the file.
/// REQUIRES: names differ, and each view has the bytes that its shape needs (asserted).
void write_safetensors(OutputFile& file, std::vector<TensorView> tensors, const Metadata& metadata);

/// The directory's `model.safetensors`, or else its `model.safetensors.index.json`. Throws Error if
/// it has neither.
std::filesystem::path find_safetensors(const std::filesystem::path& directory);

/// A model's tensors: one file, or the shards that an index names.
class SafetensorsModel {
 public:
  /// @param path  a .safetensors file, an index (.json), or a directory with `model.safetensors` or
  ///              `model.safetensors.index.json`
  explicit SafetensorsModel(const std::filesystem::path& path);
  /// Every tensor, sorted by name.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const;
  /// The first file's metadata.
  const Metadata& metadata() const { return files_.front().metadata(); }

 private:
  void read_index(const std::filesystem::path& path);
  std::vector<SafetensorsFile> files_;
  std::vector<TensorView> tensors_;
};

}  // namespace penstock
