#include "penstock/models/evaluation_flops.h"

#include "penstock/models/census.h"

namespace penstock {

double linear_layer_flops(const ModelConfig& config, const EvaluationWork& work) {
  const ModelConfig c = config.resolved();
  const auto layers = static_cast<double>(c.layers), moe = static_cast<double>(c.moe_layers()),
             d = static_cast<double>(c.d_model);
  const auto q = static_cast<double>(c.heads * c.head_dim),
             kv = static_cast<double>(c.kv_heads * c.head_dim);
  const auto rows = static_cast<double>(work.sequences),
             tokens = rows * static_cast<double>(work.length);
  const double span = static_cast<double>(work.length + (c.transformer_xl() ? work.memory : 0));
  const double queries = work.queries_of_memory ? rows * span : tokens;
  const double distances = c.transformer_xl() ? span : 0;
  const double attention =
      d * (q * (queries + tokens + distances) + 2 * kv * rows * span);  // one layer
  const auto matrices = static_cast<double>(c.ffn_form().inputs() + 1);
  const double dense = (layers - moe) * matrices * d * static_cast<double>(c.d_ffn);
  const double experts =
      moe > 0 ? moe * work.active_experts * matrices * d * static_cast<double>(c.expert_width())
              : 0;
  const double shared = moe * static_cast<double>(shared_expert_products(c));
  return 2 * (layers * attention + tokens * (dense + experts + shared + routing_products(c)));
}

}  // namespace penstock
