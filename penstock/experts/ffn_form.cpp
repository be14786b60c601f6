#include "penstock/experts/ffn_form.h"

#include <torch/types.h>

#include <string>
#include <vector>

namespace penstock {

void FfnForm::describe(std::int64_t d_model, std::int64_t d_ffn, TensorRole role,
                       const LayerTensors& at) const {
  const std::string in = input_name();
  std::vector<FusedRows> rows = {{"up_proj", d_ffn, role, TensorSplit::rows}};
  if (inputs() == 2) rows.insert(rows.begin(), {"gate_proj", d_ffn, role, TensorSplit::rows});
  at.add_fused(rows, d_model, in, bias ? in + "_bias" : "");
  at.add_fused({{"down_proj", d_model, role, TensorSplit::columns}}, d_ffn, "down",
               bias ? "down_bias" : "");
}

at::Tensor activate(const FfnForm& form, const at::Tensor& x) {
  return form.activation == ops::Activation::swiglu ? ops::swiglu(x) : at::relu(x);
}

}  // namespace penstock
