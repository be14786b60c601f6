// Values of GGUF metadata and their types. gguf.h reads and gguf_writer.h writes their bytes.
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

/// An array of strings, or of other values, packed and little-endian. It cannot contain arrays.
struct GgufArray {
  GgufType type = GgufType::kU8;     ///< of an element
  std::vector<std::string> strings;  ///< the elements if type is kString
  std::vector<std::byte> packed;     ///< the elements of other types
  std::uint64_t size() const;
};

/// A value of metadata: its type in the file, and the value in the widest type of its kind.
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
  std::optional<double> as_number() const;  ///< also for an integer
  std::optional<bool> as_bool() const;
  const std::string* as_string() const;
  const std::vector<std::string>* as_strings() const;
  /// The elements of an array of integers, or of numbers; nothing for other values.
  std::optional<std::vector<std::int64_t>> as_integers() const;
  std::optional<std::vector<float>> as_numbers() const;

 private:
  GgufType type_;
  Held held_;
};

}  // namespace penstock
