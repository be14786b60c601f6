// GGUF files: typed metadata and named tensors, as llama.cpp and its kin read them. No torch, no
// knowledge of models; tensors leave as views into the mapped file.
// Source: the format's description in ggml (docs/gguf.md, version 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "penstock/base/mapped_file.h"
#include "penstock/io/ggml_type.h"

namespace penstock {

/// Types of metadata, numbered as in files.
enum class GgufType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12
};

/// An array of strings or, packed and little-endian, of anything else but arrays.
struct GgufArray {
  GgufType type = GgufType::kU8;     ///< of an element
  std::vector<std::string> strings;  ///< where type is kString
  std::vector<std::byte> packed;     ///< elsewhere
  std::uint64_t size() const;
};

/// A value of metadata: its type in the file, and what it holds in the widest type of its kind.
class GgufValue {
 public:
  using Held = std::variant<std::uint64_t, std::int64_t, double, bool, std::string, GgufArray>;
  GgufValue(GgufType type, Held held) : type_(type), held_(std::move(held)) {}
  static GgufValue u32(std::uint32_t value);
  static GgufValue f32(float value);
  static GgufValue boolean(bool value);
  static GgufValue string(std::string value);
  static GgufValue strings(std::vector<std::string> values);
  static GgufValue i32s(std::span<const std::int32_t> values);
  static GgufValue f32s(std::span<const float> values);
  static GgufValue bytes(std::string_view values);

  GgufType type() const { return type_; }
  const Held& held() const { return held_; }
  /// The value where it is of that kind (and, of an integer, where it fits); or nothing.
  std::optional<std::int64_t> as_integer() const;
  std::optional<double> as_number() const;  ///< an integer counts too
  std::optional<bool> as_bool() const;
  const std::string* as_string() const;
  const std::vector<std::string>* as_strings() const;
  /// Elements of an array of integers, or of numbers; nothing for other values.
  std::optional<std::vector<std::int64_t>> as_integers() const;
  std::optional<std::vector<float>> as_numbers() const;

 private:
  GgufType type_;
  Held held_;
};

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
