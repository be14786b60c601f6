#include "penstock/models/formats/lazy_tensors.h"

#include <torch/types.h>

#include <utility>

#include "penstock/base/error.h"
#include "penstock/io/safetensors_stream.h"
#include "penstock/models/formats/torch_safetensors.h"

namespace penstock {
namespace {

at::Tensor made(const LazyTensor& tensor) {
  const at::Tensor value = tensor.make();
  PENSTOCK_ASSERT(value.sizes().vec() == tensor.shape, tensor.name, " is made as ", value.sizes());
  const at::Tensor stored = value.detach().cpu().to(tensor.type).contiguous();
  // The largest F16 value is 65504: a larger weight would be read back as infinity.
  PENSTOCK_CHECK(stored.scalar_type() == value.scalar_type() ||
                     !stored.isinf().logical_and(value.cpu().isfinite()).any().item<bool>(),
                 "tensor '", tensor.name, "' has values too large for ", c10::toString(tensor.type),
                 "; choose another type");
  return stored;
}

}  // namespace

void write_lazy_tensors(OutputFile& file, std::vector<LazyTensor> tensors,
                        const Metadata& metadata) {
  std::vector<StreamedTensor> streamed;
  for (LazyTensor& tensor : tensors) {
    const Dtype dtype = stored_dtype(tensor.name, tensor.type);
    StreamedTensor item{.name = tensor.name, .dtype = dtype, .shape = tensor.shape};
    item.write = [tensor = std::move(tensor)](OutputFile& out) {
      const at::Tensor value = made(tensor);
      out.write({static_cast<const std::byte*>(value.data_ptr()), value.nbytes()});
    };
    streamed.push_back(std::move(item));
  }
  write_safetensors_stream(file, std::move(streamed), metadata);
}

}  // namespace penstock
