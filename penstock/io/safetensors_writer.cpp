// Writing safetensors files.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "penstock/io/safetensors.h"

namespace penstock {
namespace {

// Padding with spaces to this keeps the data aligned for every dtype.
constexpr std::size_t kAlignment = 8;

void check_size(const TensorView& tensor) {
  std::uint64_t bytes = dtype_bytes(tensor.dtype);
  for (const auto size : tensor.shape)
    PENSTOCK_ASSERT(size >= 0 && !__builtin_mul_overflow(bytes, std::uint64_t(size), &bytes),
                    tensor.name);
  PENSTOCK_ASSERT(bytes == tensor.data.size(), tensor.name, ": ", tensor.data.size(),
                  " bytes given, its shape needs ", bytes);
}

}  // namespace

void write_safetensors(OutputFile& file, std::vector<TensorView> tensors,
                       const Metadata& metadata) {
  std::ranges::sort(tensors, [](const TensorView& a, const TensorView& b) {
    const auto width_a = dtype_bytes(a.dtype), width_b = dtype_bytes(b.dtype);
    return width_a != width_b ? width_a > width_b : a.name < b.name;
  });
  // An ordered object: the header lists the tensors as they lie.
  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string_view> names = {"__metadata__"};
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    check_size(tensor);
    PENSTOCK_ASSERT(names.insert(tensor.name).second, "two tensors named ", tensor.name);
    header[tensor.name] = {{"dtype", dtype_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.data.size()}}};
    offset += tensor.data.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const std::uint64_t length = text.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(bytes_of(text));
  for (const auto& tensor : tensors) file.write(tensor.data);
}

}  // namespace penstock
