// Values of GGUF metadata and their types. gguf.h and gguf_writer.h know their layout in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

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

/// Bytes of a value of that type; 0 for strings and arrays, which have no fixed size.
std::size_t gguf_type_bytes(GgufType type);

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
  /// The value if it is of that kind (and, for an integer, if it fits); otherwise nothing.
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

}  // namespace penstock
