// Writes safetensors files.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "penstock/io/safetensors.h"
#include "penstock/io/safetensors_stream.h"

namespace penstock {
namespace {

// Padding the header with spaces to this multiple aligns the data for every dtype.
constexpr std::size_t kAlignment = 8;

std::uint64_t bytes_needed(const StreamedTensor& tensor) {
  std::uint64_t bytes = dtype_bytes(tensor.dtype);
  for (const auto size : tensor.shape)
    PENSTOCK_ASSERT(size >= 0 && !__builtin_mul_overflow(bytes, std::uint64_t(size), &bytes),
                    tensor.name);
  return bytes;
}

/// Counts the written bytes.
class CountingFile : public OutputFile {
 public:
  explicit CountingFile(OutputFile& file) : file_(file) {}
  void write(Bytes bytes) override {
    file_.write(bytes);
    written_ += bytes.size();
  }
  void sync() override {}
  void close() override {}
  std::uint64_t written() const { return written_; }

 private:
  OutputFile& file_;
  std::uint64_t written_ = 0;
};

}  // namespace

void write_safetensors_stream(OutputFile& file, std::vector<StreamedTensor> tensors,
                              const Metadata& metadata) {
  std::ranges::sort(tensors, [](const StreamedTensor& a, const StreamedTensor& b) {
    const auto width_a = dtype_bytes(a.dtype), width_b = dtype_bytes(b.dtype);
    return width_a != width_b ? width_a > width_b : a.name < b.name;
  });
  // The object is ordered, because the header lists the tensors in the order of their data. Its
  // lookup of a key is linear. The tensors' names differ, so they are appended without a lookup.
  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::set<std::string_view> names = {"__metadata__"};
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    PENSTOCK_ASSERT(names.insert(tensor.name).second, "two tensors named ", tensor.name);
    const std::uint64_t end = offset + bytes_needed(tensor);
    header.get_ref<nlohmann::ordered_json::object_t&>().push_back(
        {tensor.name, nlohmann::ordered_json{{"dtype", dtype_name(tensor.dtype)},
                                             {"shape", tensor.shape},
                                             {"data_offsets", {offset, end}}}});
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const std::uint64_t length = text.size();
  PENSTOCK_CHECK(length <= kLargestSafetensorsHeader, "a safetensors file names its tensors in ",
                 kLargestSafetensorsHeader, " bytes at most, and these ", tensors.size(), " take ",
                 length, "; make a model of fewer tensors");
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(bytes_of(text));
  for (const auto& tensor : tensors) {
    CountingFile counted(file);
    tensor.write(counted);
    PENSTOCK_ASSERT(counted.written() == bytes_needed(tensor), tensor.name, ": ", counted.written(),
                    " bytes given, its shape needs ", bytes_needed(tensor));
  }
}

void write_safetensors(OutputFile& file, std::vector<TensorView> tensors,
                       const Metadata& metadata) {
  std::vector<StreamedTensor> streamed;
  for (TensorView& tensor : tensors) {
    const std::span<const std::byte> data = tensor.data;
    StreamedTensor item{.name = std::move(tensor.name),
                        .dtype = tensor.dtype,
                        .shape = std::move(tensor.shape),
                        .write = [data](OutputFile& out) { out.write(data); }};
    PENSTOCK_ASSERT(bytes_needed(item) == data.size(), item.name, ": ", data.size(),
                    " bytes given, its shape needs ", bytes_needed(item));
    streamed.push_back(std::move(item));
  }
  write_safetensors_stream(file, std::move(streamed), metadata);
}

}  // namespace penstock
