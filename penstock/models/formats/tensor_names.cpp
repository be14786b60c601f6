#include "penstock/models/formats/tensor_names.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"
#include "penstock/models/formats/rank_slices.h"

namespace penstock {

std::map<std::string, at::Tensor> held_tensors(const LanguageModel& model) {
  std::map<std::string, at::Tensor> out;
  for (const auto& tensors : {model.named_parameters(), model.named_buffers()})
    for (const auto& item : tensors) out[item.key()] = item.value().detach();
  return out;
}

std::map<std::string, at::Tensor> file_tensors(LanguageModel& model) {
  return file_views(model.config(), held_tensors(model));
}

void check_file_tensors(const ModelConfig& config, const std::map<std::string, at::Tensor>& tensors,
                        const std::string& where) {
  const auto wanted = tensor_shapes(config);
  for (const auto& [name, tensor] : tensors)
    PENSTOCK_CHECK(wanted.contains(name), where, ": unknown tensor '", name,
                   "'; the config describes no such part");
  for (const auto& [name, shape] : wanted) {
    const auto found = tensors.find(name);
    PENSTOCK_CHECK(found != tensors.end(), where, ": tensor '", name, "' is missing");
    PENSTOCK_CHECK(found->second.sizes() == at::IntArrayRef(shape), where, ": tensor '", name,
                   "' has shape ", found->second.sizes(), ", the config asks for ",
                   at::IntArrayRef(shape));
  }
}

void load_file_tensors(LanguageModel& model, const std::map<std::string, at::Tensor>& tensors,
                       const std::string& where) {
  const torch::NoGradGuard no_grad;
  check_file_tensors(model.config(), tensors, where);
  for (auto& [name, target] : file_tensors(model)) target.copy_(tensors.at(name));
}

}  // namespace penstock
