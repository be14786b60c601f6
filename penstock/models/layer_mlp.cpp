#include "penstock/models/layer_mlp.h"

#include "penstock/layers/feed_forward.h"

namespace penstock {

void describe_mlp(const ModelConfig& config, const MoeOptions* moe, const LayerTensors& at) {
  if (moe)
    MoeLayer::describe(*moe, at.below(kMlp));
  else
    FeedForward::describe(config.d_model, config.dense_width(), config.ffn_form(),
                          TensorRole::dense, at.below(kMlp));
}

}  // namespace penstock
