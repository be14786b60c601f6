// Compares a layer's description of its tensors with the tensors of a built layer.
#pragma once

#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "penstock/experts/layer_tensors.h"

namespace penstock {

using ShapesByName = std::map<std::string, std::vector<std::int64_t>>;

/// The shapes of a module's parameters and buffers.
inline ShapesByName held_shapes(const torch::nn::Module& module) {
  ShapesByName out;
  for (const auto& tensors : {module.named_parameters(), module.named_buffers()})
    for (const auto& item : tensors) out[item.key()] = item.value().sizes().vec();
  return out;
}

/// The shapes of the parameters that hold the described tensors. The tensors fill their parameters
/// without gaps.
inline ShapesByName described_shapes(const std::vector<ModelTensor>& tensors) {
  ShapesByName out;
  for (const ModelTensor& tensor : tensors) {
    std::vector<std::int64_t>& shape = out[tensor.module];
    const std::size_t rows = tensor.experts > 0 ? 1 : 0;
    if (shape.empty()) {
      shape = tensor.shape;
      if (tensor.experts > 0) shape.insert(shape.begin(), tensor.experts);
      EXPECT_EQ(tensor.first_row, 0) << tensor.name();
    } else {
      EXPECT_EQ(tensor.first_row, shape[rows]) << tensor.name();
      shape[rows] += tensor.shape[0];
    }
  }
  return out;
}

/// The tensors' names in files, in the order of the description.
inline std::vector<std::string> file_names(const std::vector<ModelTensor>& tensors) {
  std::vector<std::string> out;
  for (const ModelTensor& tensor : tensors) out.push_back(tensor.name());
  return out;
}

}  // namespace penstock
