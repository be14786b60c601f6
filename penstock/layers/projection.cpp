#include "penstock/layers/projection.h"

#include <torch/types.h>

#include "penstock/ops/ops.h"
#include "penstock/ops/optional_tensor.h"

namespace penstock {

Projection::Projection(std::int64_t in, std::int64_t out, bool bias) {
  weight_ = register_parameter("weight", torch::empty({out, in}));
  if (bias) bias_ = register_parameter("bias", torch::zeros({out}));
}

void Projection::describe(const std::string& name, const std::vector<FusedRows>& parts,
                          std::int64_t in, bool bias, const LayerTensors& layer) {
  layer.add_fused(parts, in, name + ".weight", bias ? name + ".bias" : "");
}

void Projection::initialize(double std, const InitialDraws& draws) {
  draws.normal("weight", weight_, std);
}

at::Tensor Projection::forward(const at::Tensor& x) {
  return ops::linear(x, weight_, stored_, ops::if_defined(bias_));
}

bool Projection::read_from(const std::string& parameter, const ops::StoredMatrix& matrix) {
  if (parameter != "weight") return false;
  give_up(weight_, matrix);
  stored_ = matrix;
  return true;
}

}  // namespace penstock
