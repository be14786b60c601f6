#include "penstock/models/formats/mapped_source.h"

#include "penstock/base/error.h"
#include "penstock/base/mapped_file.h"
#include "penstock/models/formats/torch_safetensors.h"

namespace penstock {

std::vector<std::string> MappedSource::names() const {
  std::vector<std::string> out;
  out.reserve(tensors_.size());
  for (const auto& [name, view] : tensors_) out.push_back(name);
  return out;
}

const TensorView& MappedSource::view(const std::string& name) const {
  const auto found = tensors_.find(name);
  PENSTOCK_CHECK(found != tensors_.end(), origin(), ": the model has no tensor '", name, "'");
  return found->second;
}

std::vector<std::int64_t> MappedSource::shape(const std::string& name) const {
  return view(name).shape;
}

at::Tensor MappedSource::tensor(const std::string& name) const {
  const TensorView& stored = view(name);
  at::Tensor out = to_tensor(stored);
  release_pages(stored.data);
  return out;
}

std::string MappedSource::stored_name(const std::string& name) const { return view(name).name; }

std::optional<ops::StoredRows> MappedSource::stored(const std::string& name) const {
  const TensorView& found = view(name);
  if (found.shape.size() != 2) return {};
  const auto rows = [&](ops::RowType type) {
    return ops::StoredRows{.type = type, .rows = found.shape[0], .data = found.data.data()};
  };
  switch (found.dtype) {
    case Dtype::kF32:
      return rows(ops::RowType::f32);
    case Dtype::kF16:
      return rows(ops::RowType::f16);
    case Dtype::kBF16:
      return rows(ops::RowType::bf16);
    default:
      return {};
  }
}

}  // namespace penstock
