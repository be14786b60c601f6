#include "penstock/convert/upcycle/tensor_origins.h"

#include "penstock/convert/upcycle/expert_copies.h"
#include "penstock/models/embedding_and_head_names.h"

namespace penstock {
namespace {

at::ScalarType scalar_type(UpcycleDtype dtype) {
  switch (dtype) {
    case UpcycleDtype::f32:
      return at::kFloat;
    case UpcycleDtype::f16:
      return at::kHalf;
    case UpcycleDtype::bf16:
      break;
  }
  return at::kBFloat16;
}

}  // namespace

std::string TensorOrigins::parent_of(const std::string& name) const {
  return options_.untie && name == kHeadTensor ? kEmbeddingsTensor : parent_name(name);
}

at::ScalarType TensorOrigins::type_of(const std::string& name) {
  if (options_.dtype) return scalar_type(*options_.dtype);
  const auto [found, is_new] = types_.try_emplace(parent_of(name), at::kFloat);
  if (is_new) found->second = parent_.tensor(found->first).scalar_type();
  return found->second;
}

}  // namespace penstock
