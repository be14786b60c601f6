#include "penstock/train/checkpoints/moment_names.h"

#include <torch/types.h>

#include <algorithm>
#include <string>

#include "penstock/models/formats/rank_slices.h"
#include "penstock/optim/adamw.h"

namespace penstock {
namespace {

/// Calls action(tensor, expert, its name in files, its parameter's name) for each kind of moment.
template <class Action>
void for_each_moment(const std::vector<ModelTensor>& tensors, const Action& action) {
  for (const std::string kind : {"m.", "v."})
    for (const ModelTensor& tensor : tensors)
      for (std::int64_t e = 0; e < std::max<std::int64_t>(1, tensor.experts); ++e)
        action(tensor, e, kind + tensor.name(e), kind + tensor.module);
}

}  // namespace

TensorMap moments_of_files(const ModelConfig& config, const TensorMap& optimizer) {
  const auto shapes = model_slices(config, {});
  TensorMap out;
  for_each_moment(model_tensors(config), [&](const ModelTensor& tensor, std::int64_t e,
                                             const std::string& file, const std::string& module) {
    if (const auto found = optimizer.find(file); found != optimizer.end())
      out[file] = found->second;
    else if (optimizer.contains(module))
      out[file] =
          file_view(saved_tensor(optimizer, module, shapes.at(tensor.module).shape), tensor, e);
  });
  return out;
}

TensorMap moments_of_modules(const ModelConfig& config, const TensorMap& optimizer) {
  const torch::NoGradGuard no_grad;
  const auto shapes = model_slices(config, {});
  TensorMap out = optimizer;
  for_each_moment(model_tensors(config), [&](const ModelTensor& tensor, std::int64_t e,
                                             const std::string& file, const std::string& module) {
    const auto found = optimizer.find(file);
    if (found == optimizer.end() || file == module) return;
    const at::Tensor part = saved_tensor(optimizer, file, tensor.shape);
    at::Tensor& whole = out[module];
    if (!whole.defined()) whole = at::zeros(shapes.at(tensor.module).shape, part.options());
    file_view(whole, tensor, e).copy_(part);
    out.erase(file);
  });
  return out;
}

}  // namespace penstock
