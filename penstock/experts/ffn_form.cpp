#include "penstock/experts/ffn_form.h"

#include <torch/types.h>

namespace penstock {

at::Tensor activate(const FfnForm& form, const at::Tensor& x) {
  return form.activation == ops::Activation::swiglu ? ops::swiglu(x) : at::relu(x);
}

}  // namespace penstock
