// Reads GGUF. Everything that a file says is checked before use.
#include "penstock/io/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/io/gguf_layout.h"
#include "penstock/io/lfs_pointer.h"
#include "penstock/io/shown_name.h"

namespace penstock {
namespace {

constexpr std::uint64_t kLongestKey = 65535, kLargestGgufRank = 4;
constexpr std::uint64_t kLargestAlignment = 1 << 20;
// The fewest bytes of an entry in a file. They limit the number of entries.
constexpr std::uint64_t kSmallestValue = 8 + 1 + 4 + 1, kSmallestTensor = 8 + 1 + 4 + 8 + 4 + 8;

/// Reads forward through the file; every step is checked against its end.
class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> file, const std::string& origin)
      : file_(file), origin_(origin) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return file_.size() - at_; }

  std::span<const std::byte> take(std::uint64_t bytes, std::string_view what) {
    PENSTOCK_CHECK(bytes <= left(), origin_, ": the file ends within ", what,
                   "; it is damaged or cut short");
    const auto out = file_.subspan(at_, bytes);
    at_ += bytes;
    return out;
  }

  template <class T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }

  std::string string(std::string_view what) {
    const auto length = number<std::uint64_t>(what);
    const auto bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  bool boolean(std::string_view what) {
    const auto value = number<std::uint8_t>(what);
    PENSTOCK_CHECK(value <= 1, origin_, ": ", what, " is a truth value of ", int(value));
    return value == 1;
  }

 private:
  std::span<const std::byte> file_;
  const std::string& origin_;
  std::uint64_t at_ = 0;
};

GgufArray read_array(GgufCursor& in, const std::string& what) {
  GgufArray out;
  const auto type = in.number<std::uint32_t>(what);
  const auto count = in.number<std::uint64_t>(what);
  out.type = GgufType{type};
  if (out.type == GgufType::kString) {
    PENSTOCK_CHECK(count <= in.left() / sizeof(std::uint64_t), what, " claims ", count,
                   " strings, more than the file can hold");
    out.strings.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) out.strings.push_back(in.string(what));
    return out;
  }
  PENSTOCK_CHECK(out.type != GgufType::kArray, what,
                 " is an array of arrays, which no model needs");
  const std::size_t bytes = gguf_type_bytes(out.type);
  PENSTOCK_CHECK(bytes > 0, what, " is an array of unknown type ", type);
  PENSTOCK_CHECK(count <= in.left() / bytes, what, " claims ", count,
                 " elements, more than the file can hold");
  const auto packed = in.take(count * bytes, what);
  out.packed.assign(packed.begin(), packed.end());
  return out;
}

GgufValue read_value(GgufCursor& in, const std::string& what) {
  const auto number = in.number<std::uint32_t>(what);
  const GgufType type{number};
  switch (type) {
    case GgufType::kU8:
      return {type, std::uint64_t{in.number<std::uint8_t>(what)}};
    case GgufType::kI8:
      return {type, std::int64_t{in.number<std::int8_t>(what)}};
    case GgufType::kU16:
      return {type, std::uint64_t{in.number<std::uint16_t>(what)}};
    case GgufType::kI16:
      return {type, std::int64_t{in.number<std::int16_t>(what)}};
    case GgufType::kU32:
      return {type, std::uint64_t{in.number<std::uint32_t>(what)}};
    case GgufType::kI32:
      return {type, std::int64_t{in.number<std::int32_t>(what)}};
    case GgufType::kF32:
      return {type, double{in.number<float>(what)}};
    case GgufType::kBool:
      return {type, in.boolean(what)};
    case GgufType::kString:
      return {type, in.string(what)};
    case GgufType::kArray:
      return {type, read_array(in, what)};
    case GgufType::kU64:
      return {type, in.number<std::uint64_t>(what)};
    case GgufType::kI64:
      return {type, in.number<std::int64_t>(what)};
    case GgufType::kF64:
      return {type, in.number<double>(what)};
  }
  fail(what, " has unknown type ", number);
}

/// A tensor as the header lists it, before its position in the file is checked.
struct Listed {
  GgufTensor tensor;
  std::uint64_t offset = 0, bytes = 0;
};

Listed read_listed(GgufCursor& in, const std::string& origin) {
  Listed out;
  GgufTensor& tensor = out.tensor;
  tensor.name = in.string("a tensor's name");
  const std::string where = origin + ": tensor '" + shown_name(tensor.name) + "': ";
  const auto rank = in.number<std::uint32_t>("a tensor's shape");
  PENSTOCK_CHECK(rank >= 1 && rank <= kLargestGgufRank, where, "it has ", rank, " axes; 1 to ",
                 kLargestGgufRank, " are known");
  std::uint64_t count = 1, row = 0;
  for (std::uint32_t i = 0; i < rank; ++i) {
    const auto size = in.number<std::uint64_t>("a tensor's shape");
    // The bound of 2^62 keeps rounding up and strides within 63 bits.
    PENSTOCK_CHECK(size > 0 && !__builtin_mul_overflow(count, size, &count) && count < 1ull << 62,
                   where, "its shape is empty or too large");
    if (i == 0) row = size;
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));
  }
  const auto type = in.number<std::uint32_t>("a tensor's type");
  const auto known = find_ggml_type(type);
  PENSTOCK_CHECK(known, where, "its type is ", ggml_type_text(type), "; ", ggml_types_text(),
                 " are read");
  tensor.type = *known;
  const GgmlBlock block = ggml_block(tensor.type);
  PENSTOCK_CHECK(row % block.numbers == 0, where, "a row of ", row,
                 " numbers is not whole blocks of ", block.numbers, ", as ",
                 ggml_type_name(tensor.type), " has them");
  PENSTOCK_CHECK(!__builtin_mul_overflow(count / block.numbers, block.bytes, &out.bytes), where,
                 "its shape is too large");
  out.offset = in.number<std::uint64_t>("a tensor's offset");
  return out;
}

/// Gives each tensor its bytes of `data`. Tensors must follow each other at aligned offsets.
void place(std::vector<Listed>& listed, std::span<const std::byte> data, std::uint64_t alignment,
           const std::string& origin) {
  std::ranges::sort(listed, {}, &Listed::offset);
  std::uint64_t end = 0;
  for (auto& [tensor, offset, bytes] : listed) {
    const std::string where = origin + ": tensor '" + shown_name(tensor.name) + "' ";
    PENSTOCK_CHECK(offset >= end, where, "overlaps another");
    PENSTOCK_CHECK(offset == aligned(end, alignment), where, "begins at byte ", offset, ", not at ",
                   aligned(end, alignment), " where the one before it ends");
    PENSTOCK_CHECK(offset <= data.size() && bytes <= data.size() - offset, where, "needs ", bytes,
                   " bytes from ", offset, ", the file has ", data.size(),
                   "; it is damaged or cut short");
    tensor.data = data.subspan(offset, bytes);
    end = offset + bytes;
  }
  PENSTOCK_CHECK(data.size() <= aligned(end, alignment), origin, ": ",
                 data.size() - aligned(end, alignment), " bytes at the end belong to no tensor");
}

std::uint64_t alignment_of(const GgufMetadata& metadata, const std::string& origin) {
  for (const auto& [key, value] : metadata) {
    if (key != "general.alignment") continue;
    const auto alignment = value.as_integer();
    PENSTOCK_CHECK(alignment && *alignment > 0 && std::has_single_bit(std::uint64_t(*alignment)) &&
                       std::uint64_t(*alignment) <= kLargestAlignment,
                   origin, ": general.alignment is not a power of two up to ", kLargestAlignment);
    return static_cast<std::uint64_t>(*alignment);
  }
  return kGgufAlignment;
}

}  // namespace

GgufContent parse_gguf(std::span<const std::byte> file, const std::string& origin) {
  check_no_lfs_pointer(file, origin);
  GgufCursor in(file, origin);
  PENSTOCK_CHECK(
      file.size() >= sizeof kGgufMagic && in.number<std::uint32_t>("the magic") == kGgufMagic,
      origin, ": not a GGUF file");
  GgufContent out;
  out.version = in.number<std::uint32_t>("the version");
  PENSTOCK_CHECK((out.version & 0xffff) != 0, origin, ": a big-endian GGUF file; convert it");
  PENSTOCK_CHECK(out.version == 2 || out.version == 3, origin, ": GGUF version ", out.version,
                 "; versions 2 and 3 are read");
  const auto tensors = in.number<std::uint64_t>("the header");
  const auto values = in.number<std::uint64_t>("the header");
  PENSTOCK_CHECK(values <= in.left() / kSmallestValue && tensors <= in.left() / kSmallestTensor,
                 origin, ": the header claims ", values, " values and ", tensors,
                 " tensors, more than the file can hold");
  std::set<std::string, std::less<>> names;
  for (std::uint64_t i = 0; i < values; ++i) {
    std::string key = in.string("a key");
    PENSTOCK_CHECK(!key.empty() && key.size() <= kLongestKey, origin,
                   ": a key of metadata is empty or longer than ", kLongestKey, " bytes");
    PENSTOCK_CHECK(names.insert(key).second, origin, ": key '", shown_name(key),
                   "' is there twice");
    const std::string what = origin + ": key '" + shown_name(key) + "'";
    out.metadata.emplace_back(std::move(key), read_value(in, what));
  }
  out.alignment = alignment_of(out.metadata, origin);
  names.clear();
  std::vector<Listed> listed;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    listed.push_back(read_listed(in, origin));
    PENSTOCK_CHECK(names.insert(listed.back().tensor.name).second, origin, ": tensor '",
                   shown_name(listed.back().tensor.name), "' is there twice");
  }
  const std::uint64_t begin = std::min<std::uint64_t>(aligned(in.at(), out.alignment), file.size());
  place(listed, file.subspan(begin), out.alignment, origin);
  for (auto& entry : listed) out.tensors.push_back(std::move(entry.tensor));
  std::ranges::sort(out.tensors, {}, &GgufTensor::name);
  return out;
}

GgufFile::GgufFile(const std::filesystem::path& path)
    : origin_(path.string()), file_(path), content_(parse_gguf(file_.bytes(), origin_)) {}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto it = std::ranges::lower_bound(content_.tensors, name, {}, &GgufTensor::name);
  return it != content_.tensors.end() && it->name == name ? &*it : nullptr;
}

const GgufValue* GgufFile::value(std::string_view key) const {
  for (const auto& [name, value] : content_.metadata)
    if (name == key) return &value;
  return nullptr;
}

}  // namespace penstock
