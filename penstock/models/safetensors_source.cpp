#include "penstock/models/safetensors_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "penstock/base/error.h"
#include "penstock/models/tensor_shapes.h"

namespace penstock {
namespace {

bool is_float(Dtype dtype) {
  return dtype == Dtype::kF16 || dtype == Dtype::kBF16 || dtype == Dtype::kF32 ||
         dtype == Dtype::kF64;
}

/// Throws unless the tensor is one that a model can take for what the config asks for.
void check_stored(const TensorView& view, const std::vector<std::int64_t>& wanted,
                  const std::string& origin) {
  const bool turned = wanted.size() == 2 && wanted[0] != wanted[1] &&
                      view.shape == std::vector<std::int64_t>{wanted[1], wanted[0]};
  PENSTOCK_CHECK(view.shape == wanted, origin, ": tensor '", view.name, "' has shape ",
                 fmt::format("{}", view.shape), ", the config asks for ", fmt::format("{}", wanted),
                 turned ? ": it is stored transposed" : "");
  PENSTOCK_CHECK(is_float(view.dtype), origin, ": tensor '", view.name, "' is of type ",
                 dtype_name(view.dtype), "; weights are F32, F16, BF16 or F64");
}

}  // namespace

SafetensorsSource::SafetensorsSource(ModelConfig config, const std::string& directory,
                                     const std::string& ignored)
    : MappedSource(std::move(config), find_safetensors(directory)),
      directory_(directory),
      files_(origin()) {
  for (const auto& [name, wanted] : tensor_shapes(this->config())) {
    const TensorView* const view = files_.find(name);
    PENSTOCK_CHECK(view, origin(), ": tensor '", name, "' is missing");
    check_stored(*view, wanted, origin());
    tensors_[name] = *view;
  }
  for (const TensorView& view : files_.tensors())
    PENSTOCK_CHECK(
        tensors_.contains(view.name) || (!ignored.empty() && view.name.starts_with(ignored)),
        origin(), ": unknown tensor '", view.name, "'; the config describes no such part");
}

std::shared_ptr<const Tokenizer> SafetensorsSource::tokenizer() const {
  return load_tokenizer(directory_);
}

}  // namespace penstock
