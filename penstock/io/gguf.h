// GGUF files: typed metadata and named tensors, as llama.cpp and its kin read them. No torch, no
// knowledge of models; tensors leave as views into the mapped file.
// Source: the format's description in ggml (docs/gguf.md, version 3).
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

/// In the order of the file; keys differ.
using GgufMetadata = std::vector<std::pair<std::string, GgufValue>>;

/// A tensor's description and its bytes, which belong to somebody else.
struct GgufTensor {
  std::string name;
  GgmlType type = GgmlType::kF32;
  std::vector<std::int64_t> shape;  ///< row-major as everywhere in Penstock: the file's, reversed
  std::span<const std::byte> data;
};

struct GgufContent {
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // sorted by name
};

/// Reads all but the tensors' numbers; the tensors point into `file`.
/// Throws Error, naming `origin`, unless: magic and version (2 or 3, little-endian) are known;
/// counts, lengths and types fit what is left of the file before anything is allocated for them;
/// keys and names differ; no array holds arrays; the alignment is a power of two; each tensor has 1
/// to 4 sizes above 0, a known type, rows of whole blocks, and begins at the first aligned byte
/// behind the one before it; and nothing but padding follows the last.
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
