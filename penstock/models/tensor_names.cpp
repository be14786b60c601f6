#include "penstock/models/tensor_names.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/models/tensor_shapes.h"

namespace penstock {
namespace {

/// The part of a model's parameter that files hold as one tensor.
at::Tensor part_of(const at::Tensor& whole, const ModelTensor& tensor, std::int64_t expert) {
  const at::Tensor own = tensor.experts > 0 ? whole.select(0, expert) : whole;
  if (tensor.shape.empty() || own.size(0) == tensor.shape[0]) return own;
  return own.narrow(0, tensor.first_row, tensor.shape[0]);
}

}  // namespace

std::map<std::string, at::Tensor> file_tensors(LanguageModel& model) {
  std::map<std::string, at::Tensor> held, out;
  for (const auto& tensors : {model.named_parameters(), model.named_buffers()})
    for (const auto& item : tensors) held[item.key()] = item.value().detach();
  std::int64_t numbers = 0;
  for (const ModelTensor& tensor : model_tensors(model.config())) {
    const auto whole = held.find(tensor.module);
    PENSTOCK_ASSERT(whole != held.end(), "the model has no ", tensor.module);
    for (std::int64_t e = 0; e < std::max<std::int64_t>(1, tensor.experts); ++e) {
      at::Tensor& part = out[tensor.name(e)] = part_of(whole->second, tensor, e);
      numbers += part.numel();
    }
  }
  for (const auto& [name, tensor] : held) numbers -= tensor.numel();
  PENSTOCK_ASSERT(numbers == 0, "the description of a model's tensors misses some");
  return out;
}

void load_file_tensors(LanguageModel& model, const std::map<std::string, at::Tensor>& tensors,
                       const std::string& where) {
  torch::NoGradGuard no_grad;
  auto wanted = file_tensors(model);
  for (const auto& [name, tensor] : tensors)
    PENSTOCK_CHECK(wanted.count(name), where, ": unknown tensor '", name,
                   "'; the config describes no such part");
  for (auto& [name, target] : wanted) {
    const auto found = tensors.find(name);
    PENSTOCK_CHECK(found != tensors.end(), where, ": tensor '", name, "' is missing");
    PENSTOCK_CHECK(found->second.sizes() == target.sizes(), where, ": tensor '", name,
                   "' has shape ", found->second.sizes(), ", the config asks for ", target.sizes());
    target.copy_(found->second);
  }
}

}  // namespace penstock
