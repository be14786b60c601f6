// Causal attention forward in f32.
#include "penstock/ops/cpu/attention/attention_forward.h"

namespace penstock::ops::cpu {

AttentionResult causal_attention(const at::Tensor& qkv, const AttentionOptions& options) {
  return attention::forward_pass<attention::ForwardProducts>(qkv, options);
}

}  // namespace penstock::ops::cpu
