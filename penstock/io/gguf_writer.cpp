#include "penstock/io/gguf_writer.h"

#include <array>
#include <set>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/io/gguf_layout.h"

namespace penstock {
namespace {

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_string(std::string& out, std::string_view text) {
  put(out, std::uint64_t{text.size()});
  out += text;
}

void put_array(std::string& out, const GgufArray& array) {
  put(out, static_cast<std::uint32_t>(array.type));
  put(out, array.size());
  for (const auto& text : array.strings) put_string(out, text);
  out.append(reinterpret_cast<const char*>(array.packed.data()), array.packed.size());
}

void put_value(std::string& out, const GgufValue& value) {
  put(out, static_cast<std::uint32_t>(value.type()));
  std::visit(
      [&](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::string>) {
          put_string(out, held);
        } else if constexpr (std::is_same_v<Held, GgufArray>) {
          put_array(out, held);
        } else if constexpr (std::is_same_v<Held, bool>) {
          put(out, std::uint8_t{held});
        } else if constexpr (std::is_same_v<Held, double>) {
          if (value.type() == GgufType::kF32)
            put(out, static_cast<float>(held));
          else
            put(out, held);
        } else {  // little-endian: the narrower type's bytes come first
          out.append(reinterpret_cast<const char*>(&held), gguf_type_bytes(value.type()));
        }
      },
      value.held());
}

void put_tensor(std::string& out, const GgufPlanned& tensor, std::uint64_t offset) {
  put_string(out, tensor.name);
  put(out, static_cast<std::uint32_t>(tensor.shape.size()));
  for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
    put(out, static_cast<std::uint64_t>(*size));
  put(out, static_cast<std::uint32_t>(tensor.type));
  put(out, offset);
}

std::string header_text(const GgufMetadata& metadata, const std::vector<GgufPlanned>& tensors) {
  std::string out;
  put(out, kGgufMagic);
  put(out, std::uint32_t{3});
  put(out, std::uint64_t{tensors.size()});
  put(out, std::uint64_t{metadata.size()});
  std::set<std::string_view> names;
  for (const auto& [key, value] : metadata) {
    PENSTOCK_ASSERT(names.insert(key).second, "two values of ", key);
    put_string(out, key);
    put_value(out, value);
  }
  names.clear();
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    PENSTOCK_ASSERT(names.insert(tensor.name).second, "two tensors named ", tensor.name);
    put_tensor(out, tensor, offset);
    offset = aligned(offset + gguf_bytes(tensor), kGgufAlignment);
  }
  out.resize(aligned(out.size(), kGgufAlignment), '\0');
  return out;
}

std::uint64_t total_bytes(const std::vector<GgufPlanned>& tensors) {
  std::uint64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += aligned(gguf_bytes(tensor), kGgufAlignment);
  return bytes;
}

}  // namespace

std::uint64_t gguf_bytes(const GgufPlanned& tensor) {
  PENSTOCK_ASSERT(!tensor.shape.empty() && tensor.shape.size() <= 4, tensor.name);
  const GgmlBlock block = ggml_block(tensor.type);
  PENSTOCK_ASSERT(static_cast<std::uint64_t>(tensor.shape.back()) % block.numbers == 0, tensor.name,
                  ": rows are not whole blocks");
  std::uint64_t count = 1;
  for (const auto size : tensor.shape) {
    PENSTOCK_ASSERT(size > 0, tensor.name, " is empty");
    count *= static_cast<std::uint64_t>(size);
  }
  return count / block.numbers * block.bytes;
}

GgufWriter::GgufWriter(FileSystem& fs, const std::filesystem::path& path,
                       const GgufMetadata& metadata, std::vector<GgufPlanned> tensors)
    : tensors_(std::move(tensors)), file_(fs, path, total_bytes(tensors_)) {
  file_.write(bytes_of(header_text(metadata, tensors_)));
}

void GgufWriter::write(const std::string& name, Bytes part) {
  PENSTOCK_ASSERT(next_ < tensors_.size() && tensors_[next_].name == name, name,
                  " is not the tensor whose turn it is");
  const std::uint64_t whole = gguf_bytes(tensors_[next_]);
  PENSTOCK_ASSERT(part.size() <= whole - written_, name, " gets more than its ", whole, " bytes");
  file_.write(part);
  written_ += part.size();
  if (written_ < whole) return;
  static constexpr std::array<std::byte, kGgufAlignment> kZeros = {};
  file_.write(Bytes(kZeros).first(aligned(whole, kGgufAlignment) - whole));
  ++next_;
  written_ = 0;
}

void GgufWriter::commit() {
  PENSTOCK_ASSERT(next_ == tensors_.size(), "a tensor is missing");
  file_.commit();
}

}  // namespace penstock
