#include "penstock/layers/feed_forward.h"

#include <torch/torch.h>

#include "penstock/ops/ops.h"

namespace penstock {

FeedForward::FeedForward(std::int64_t d_model, std::int64_t d_ffn, double init_std,
                         double output_std)
    : gate_up_(
          register_parameter("gate_up", torch::empty({2 * d_ffn, d_model}).normal_(0, init_std))),
      down_(register_parameter("down", torch::empty({d_model, d_ffn}).normal_(0, output_std))) {}

at::Tensor FeedForward::forward(const at::Tensor& x) {
  return ops::linear(ops::swiglu(ops::linear(x, gate_up_)), down_);
}

}  // namespace penstock
