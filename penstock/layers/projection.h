// A linear map with seeded initialisation by name (InitialDraws). ops::linear computes the product.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/experts/layer_tensors.h"
#include "penstock/ops/initial_draws.h"
#include "penstock/ops/stored_matrix.h"

namespace penstock {

/// y = x · weightᵀ + bias.  `weight` [out, in] is not initialised. `bias` [out], if there is one,
/// is 0.
class Projection : public torch::nn::Module, public ops::ReadsStored {
 public:
  Projection(std::int64_t in, std::int64_t out, bool bias);
  /// Adds the tensors of a projection. Its layer registers the projection as `name`. Files hold it
  /// as the tensors `parts`, whose names follow the layer's name.
  static void describe(const std::string& name, const std::vector<FusedRows>& parts,
                       std::int64_t in, bool bias, const LayerTensors& layer);
  /// Draws the weight from N(0, std²).
  void initialize(double std, const InitialDraws& draws);
  at::Tensor forward(const at::Tensor& x);
  bool read_from(const std::string& parameter, const ops::StoredMatrix& matrix) override;

 private:
  at::Tensor weight_, bias_;
  ops::StoredMatrix stored_;  // replaces `weight_`, or empty
};

}  // namespace penstock
