#include "penstock/models/formats/torch_safetensors.h"

#include <torch/types.h>

#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "penstock/base/atomic_files.h"

namespace penstock {
namespace {

constexpr std::array<std::pair<Dtype, at::ScalarType>, 10> kTypes = {{{Dtype::kBool, at::kBool},
                                                                      {Dtype::kU8, at::kByte},
                                                                      {Dtype::kI8, at::kChar},
                                                                      {Dtype::kI16, at::kShort},
                                                                      {Dtype::kI32, at::kInt},
                                                                      {Dtype::kI64, at::kLong},
                                                                      {Dtype::kF16, at::kHalf},
                                                                      {Dtype::kBF16, at::kBFloat16},
                                                                      {Dtype::kF32, at::kFloat},
                                                                      {Dtype::kF64, at::kDouble}}};

at::ScalarType scalar_type_of(Dtype dtype) {
  for (const auto& [known, type] : kTypes)
    if (known == dtype) return type;
  assertion_failed("every dtype is in the table", std::string(dtype_name(dtype)));
}

}  // namespace

Dtype stored_dtype(const std::string& name, at::ScalarType wanted) {
  for (const auto& [dtype, type] : kTypes)
    if (type == wanted) return dtype;
  fail("cannot save '", name, "': safetensors files have no type for ", c10::toString(wanted));
}

void write_tensors(OutputFile& file, const TensorMap& tensors, const Metadata& metadata) {
  std::vector<TensorView> views;
  std::vector<at::Tensor> held;  // keeps copies alive while they are written
  for (const auto& [name, tensor] : tensors) {
    PENSTOCK_ASSERT(tensor.defined(), name, " is undefined");
    const Dtype dtype = stored_dtype(name, tensor.scalar_type());
    held.push_back(tensor.detach().cpu().contiguous());
    views.push_back(
        {.name = name,
         .dtype = dtype,
         .shape = held.back().sizes().vec(),
         .data = {static_cast<const std::byte*>(held.back().data_ptr()), held.back().nbytes()}});
  }
  write_safetensors(file, std::move(views), metadata);
}

void save_tensors(FileSystem& fs, const std::filesystem::path& path, const TensorMap& tensors,
                  const Metadata& metadata) {
  class Forward : public OutputFile {
   public:
    explicit Forward(AtomicFile& file) : file_(file) {}
    void write(Bytes bytes) override { file_.write(bytes); }
    void sync() override {}
    void close() override {}

   private:
    AtomicFile& file_;
  };
  AtomicFile file(fs, path, tensor_bytes(tensors));
  Forward forward(file);
  write_tensors(forward, tensors, metadata);
  file.commit();
}

at::Tensor to_tensor(const TensorView& view) {
  const at::Tensor tensor = at::empty(view.shape, at::TensorOptions(scalar_type_of(view.dtype)));
  if (!view.data.empty()) std::memcpy(tensor.data_ptr(), view.data.data(), view.data.size());
  if (view.dtype == Dtype::kBool) {  // a byte other than 0 and 1 would be undefined behaviour
    auto* bytes = static_cast<unsigned char*>(tensor.data_ptr());
    for (std::size_t i = 0; i < view.data.size(); ++i) bytes[i] = bytes[i] != 0;
  }
  return tensor;
}

TensorMap load_tensors(const std::filesystem::path& path) {
  const SafetensorsModel files(path);
  TensorMap out;
  for (const auto& view : files.tensors()) out.emplace(view.name, to_tensor(view));
  return out;
}

TensorMap map_tensors(const std::filesystem::path& path) {
  const auto files = std::make_shared<SafetensorsModel>(path);
  TensorMap out;
  for (const TensorView& view : files->tensors()) {
    const bool aligned =
        reinterpret_cast<std::uintptr_t>(view.data.data()) % dtype_bytes(view.dtype) == 0;
    if (!aligned || view.data.empty() || view.dtype == Dtype::kBool) {
      out.emplace(view.name, to_tensor(view));
      continue;
    }
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): libtorch knows no read-only memory
    void* const data = const_cast<std::byte*>(view.data.data());
    out.emplace(view.name, at::from_blob(
                               data, view.shape, [files](void*) {}, scalar_type_of(view.dtype)));
  }
  return out;
}

std::uint64_t tensor_bytes(const TensorMap& tensors) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
  return bytes;
}

}  // namespace penstock
