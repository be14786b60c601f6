// Reads GGUF files, the format of llama.cpp: typed metadata and named tensors. It neither uses
// torch nor knows models. Tensors are views into the mapped file. Source: the format's description
// in ggml (docs/gguf.md, version 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/base/mapped_file.h"
#include "penstock/io/ggml_type.h"
#include "penstock/io/gguf_value.h"

namespace penstock {

/// Keys and values in the file's order; keys differ.
using GgufMetadata = std::vector<std::pair<std::string, GgufValue>>;

/// A tensor's description and a view of its bytes.
struct GgufTensor {
  std::string name;
  GgmlType type = GgmlType::kF32;
  std::vector<std::int64_t> shape;  ///< row-major, the reverse of the file's order
  std::span<const std::byte> data;
};

struct GgufContent {
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // sorted by name
};

/// Reads everything except the tensors' numbers; the tensors point into `file`.
/// Throws Error with `origin` unless: magic and version (2 or 3, little-endian) are known; counts,
/// lengths and types fit into the rest of the file (checked before any allocation); keys and names
/// differ; no array contains arrays; the alignment is a power of two; each tensor has 1 to 4 sizes
/// above 0, a known type and rows of whole blocks, and begins at the first aligned byte after the
/// previous tensor; and only padding follows the last tensor.
GgufContent parse_gguf(std::span<const std::byte> file, const std::string& origin);

/// A mapped and checked file.
class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);
  const std::string& origin() const { return origin_; }
  const GgufMetadata& metadata() const { return content_.metadata; }
  const std::vector<GgufTensor>& tensors() const { return content_.tensors; }
  /// The tensor of that name, or null.
  const GgufTensor* find(std::string_view name) const;
  /// The value of that key, or null.
  const GgufValue* value(std::string_view key) const;

 private:
  std::string origin_;
  MappedFile file_;
  GgufContent content_;
};

}  // namespace penstock
