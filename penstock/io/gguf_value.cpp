#include "penstock/io/gguf_value.h"

#include <cstring>
#include <limits>

namespace penstock {
namespace {

template <class T>
GgufArray packed_array(GgufType type, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {.type = type, .strings = {}, .packed = {bytes.begin(), bytes.end()}};
}

/// Element `i` of type T.
template <class T>
T element(const GgufArray& array, std::size_t i) {
  T value;
  std::memcpy(&value, array.packed.data() + i * sizeof value, sizeof value);
  return value;
}

template <class T, class Out>
std::vector<Out> widened(const GgufArray& array) {
  std::vector<Out> out(array.packed.size() / sizeof(T));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<Out>(element<T>(array, i));
  return out;
}

}  // namespace

std::size_t gguf_type_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return 0;
}

std::uint64_t GgufArray::size() const {
  return type == GgufType::kString ? strings.size() : packed.size() / gguf_type_bytes(type);
}

GgufValue GgufValue::u32(std::uint32_t value) { return {GgufType::kU32, std::uint64_t{value}}; }
GgufValue GgufValue::f32(float value) { return {GgufType::kF32, double{value}}; }
GgufValue GgufValue::boolean(bool value) { return {GgufType::kBool, value}; }
GgufValue GgufValue::string(std::string value) { return {GgufType::kString, std::move(value)}; }
GgufValue GgufValue::strings(std::vector<std::string> values) {
  return {GgufType::kArray,
          GgufArray{.type = GgufType::kString, .strings = std::move(values), .packed = {}}};
}
GgufValue GgufValue::i32s(std::span<const std::int32_t> values) {
  return {GgufType::kArray, packed_array(GgufType::kI32, values)};
}
GgufValue GgufValue::f32s(std::span<const float> values) {
  return {GgufType::kArray, packed_array(GgufType::kF32, values)};
}
GgufValue GgufValue::bytes(std::string_view values) {
  return {GgufType::kArray, packed_array(GgufType::kU8, std::span(values.data(), values.size()))};
}

std::optional<std::int64_t> GgufValue::as_integer() const {
  if (const auto* value = std::get_if<std::int64_t>(&held_)) return *value;
  const auto* value = std::get_if<std::uint64_t>(&held_);
  if (!value || *value > std::uint64_t(std::numeric_limits<std::int64_t>::max())) return {};
  return static_cast<std::int64_t>(*value);
}

std::optional<double> GgufValue::as_number() const {
  if (const auto* value = std::get_if<double>(&held_)) return *value;
  if (const auto* value = std::get_if<std::uint64_t>(&held_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::int64_t>(&held_)) return static_cast<double>(*value);
  return {};
}

std::optional<bool> GgufValue::as_bool() const {
  if (const auto* value = std::get_if<bool>(&held_)) return *value;
  return {};
}

const std::string* GgufValue::as_string() const { return std::get_if<std::string>(&held_); }

const std::vector<std::string>* GgufValue::as_strings() const {
  const auto* array = std::get_if<GgufArray>(&held_);
  return array && array->type == GgufType::kString ? &array->strings : nullptr;
}

std::optional<std::vector<std::int64_t>> GgufValue::as_integers() const {
  const auto* array = std::get_if<GgufArray>(&held_);
  if (!array) return {};
  switch (array->type) {
    case GgufType::kU8:
      return widened<std::uint8_t, std::int64_t>(*array);
    case GgufType::kI8:
      return widened<std::int8_t, std::int64_t>(*array);
    case GgufType::kU16:
      return widened<std::uint16_t, std::int64_t>(*array);
    case GgufType::kI16:
      return widened<std::int16_t, std::int64_t>(*array);
    case GgufType::kU32:
      return widened<std::uint32_t, std::int64_t>(*array);
    case GgufType::kI32:
      return widened<std::int32_t, std::int64_t>(*array);
    case GgufType::kI64:
      return widened<std::int64_t, std::int64_t>(*array);
    default:
      return {};
  }
}

std::optional<std::vector<float>> GgufValue::as_numbers() const {
  const auto* array = std::get_if<GgufArray>(&held_);
  if (array && array->type == GgufType::kF32) return widened<float, float>(*array);
  if (array && array->type == GgufType::kF64) return widened<double, float>(*array);
  return {};
}

}  // namespace penstock
