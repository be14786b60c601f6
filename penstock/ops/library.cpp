// The schemas of all operators. Each operator's own file registers its kernels; see
// implementation.h for the layout.
#include <torch/library.h>

TORCH_LIBRARY(penstock, m) {
  m.def("linear(Tensor x, Tensor w, Tensor? b=None) -> Tensor");
  m.def("rms_norm(Tensor x, Tensor gain, float eps) -> Tensor");
  m.def("add_rms_norm(Tensor x, Tensor delta, Tensor gain, float eps) -> (Tensor, Tensor)");
  m.def(
      "causal_attention(Tensor qkv, int heads, int kv_heads, float scale, Tensor? rotation=None, "
      "bool rope_adjacent=False, Tensor? start=None) -> Tensor");
  m.def(
      "cached_attention(Tensor qkv, Tensor(a!) keys, Tensor(b!) values, Tensor rows, Tensor "
      "lengths, float scale, Tensor? rotation=None, bool rope_adjacent=False) -> Tensor");
  m.def(
      "relative_attention(Tensor q, Tensor kv, Tensor r, Tensor u, Tensor v, float scale) -> "
      "Tensor");
  m.def("dropout(Tensor x, float p, int seed) -> Tensor");
  m.def("swiglu(Tensor x) -> Tensor");
  m.def(
      "linear_cross_entropy(Tensor hidden, Tensor w, Tensor targets, int logits_bytes=33554432) -> "
      "Tensor");
  m.def(
      "linear_cross_entropy_rows(Tensor hidden, Tensor w, Tensor targets, int "
      "logits_bytes=33554432) -> Tensor");
  m.def(
      "route_topk(Tensor logits, int k, bool over_kept) -> (Tensor weight, Tensor "
      "mean_probability, Tensor logsumexp, Tensor token, Tensor expert, Tensor offsets, Tensor "
      "by_token, Tensor token_offsets)");
  m.def(
      "route_relu(Tensor logits) -> (Tensor weight, Tensor gate_sums, Tensor token, Tensor expert, "
      "Tensor offsets, Tensor by_token, Tensor token_offsets)");
  m.def("embedding(Tensor weight, Tensor ids) -> Tensor");
  m.def(
      "expert_ffn(Tensor hidden, Tensor weight, Tensor token, Tensor offsets, Tensor by_token, "
      "Tensor token_offsets, Tensor w_in, Tensor w_out, Tensor? b_in=None, Tensor? b_out=None, "
      "str activation='swiglu', bool recompute=False, float dropout=0.0, int dropout_seed=0, "
      "Tensor? dropout_keys=None) -> Tensor");
  m.def(
      "adamw_step(Tensor(a!)[] weights, Tensor[] grads, Tensor(b!)[] m, Tensor(c!)[] v, "
      "float[] decay, float lr, float beta1, float beta2, float eps, float grad_scale, int step) "
      "-> ()");
  m.def("global_norm(Tensor[] tensors) -> float");
}
