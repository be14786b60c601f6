#include "penstock/experts/layer_tensors.h"

#include <torch/nn/module.h>

#include <functional>
#include <numeric>
#include <utility>

namespace penstock {

std::int64_t ModelTensor::size() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

LayerTensors::LayerTensors(std::vector<ModelTensor>& out, std::string file, std::string module,
                           std::int64_t layer)
    : out_(&out), file_(std::move(file)), module_(std::move(module)), layer_(layer) {}

LayerTensors LayerTensors::below(const std::string& name) const {
  return {*out_, file_ + name + ".", module_ + name + ".", layer_};
}

LayerTensors LayerTensors::of_each(std::int64_t experts) const {
  LayerTensors each = *this;
  each.experts_ = experts;
  return each;
}

ModelTensor& LayerTensors::added(const std::string& name, const std::string& module,
                                 std::vector<std::int64_t> shape, TensorRole role) const {
  return out_->emplace_back(ModelTensor{.stem = file_,
                                        .rest = (experts_ > 0 ? "." : "") + name,
                                        .shape = std::move(shape),
                                        .role = role,
                                        .layer = layer_,
                                        .experts = experts_,
                                        .module = module_ + module});
}

void LayerTensors::add(const std::string& name, const std::string& module,
                       std::vector<std::int64_t> shape, TensorRole role,
                       GradientShare gradient) const {
  added(name, module, std::move(shape), role).gradient = gradient;
}

void LayerTensors::add_fused(const std::vector<FusedRows>& parts, std::int64_t inputs,
                             const std::string& weight, const std::string& bias) const {
  std::int64_t first = 0;
  for (const FusedRows& part : parts) {
    const std::string name = part.name;
    ModelTensor& matrix = added(name + ".weight", weight, {part.count, inputs}, part.role);
    matrix.split = part.split;
    matrix.first_row = first;
    if (!bias.empty()) {
      ModelTensor& vector = added(name + ".bias", bias, {part.count}, TensorRole::rest);
      vector.split = part.split == TensorSplit::rows ? part.split : TensorSplit::none;
      vector.first_row = first;
    }
    first += part.count;
  }
}

void LayerTensors::add_module(const torch::nn::Module& part, const std::string& module,
                              TensorRole role,
                              const std::function<std::string(const std::string&)>& named) const {
  for (const auto& tensors : {part.named_parameters(), part.named_buffers()})
    for (const auto& item : tensors)
      added(named(item.key()), module + item.key(), item.value().sizes().vec(), role).trained =
          item.value().requires_grad();
}

}  // namespace penstock
