#include "penstock/finetune/head.h"

#include <torch/types.h>

#include "penstock/base/error.h"
#include "penstock/ops/initial_draws.h"
#include "penstock/ops/ops.h"

namespace penstock {

ClassifierHead::ClassifierHead(std::int64_t d_model, std::int64_t classes, double dropout,
                               double init_std, std::uint64_t seed)
    : dropout_(dropout) {
  PENSTOCK_CHECK(classes >= 2, "a classifier needs two classes or more, not ", classes);
  const auto matrix = [&](const char* name, std::int64_t rows) {
    const at::Tensor out = torch::empty({rows, d_model});
    InitialDraws(seed).normal(name, out, init_std);
    return register_parameter(name, out);
  };
  // Names are those of Hugging Face's classification heads: classifier.dense, classifier.out_proj.
  dense_weight_ = matrix("dense_weight", d_model);
  dense_bias_ = register_parameter("dense_bias", torch::zeros({d_model}));
  out_weight_ = matrix("out_weight", classes);
  out_bias_ = register_parameter("out_bias", torch::zeros({classes}));
}

at::Tensor ClassifierHead::forward(const at::Tensor& hidden,
                                   std::optional<std::int64_t> dropout_seed) const {
  at::Tensor x = ops::linear(hidden, dense_weight_, dense_bias_).tanh();  // [B, d]
  if (dropout_seed && dropout_ > 0) x = ops::dropout(x, dropout_, *dropout_seed);
  return ops::linear(x, out_weight_, out_bias_);  // [B, C]
}

}  // namespace penstock
