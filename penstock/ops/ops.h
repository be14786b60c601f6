// The tensor operators: one function each, dispatched by device and dtype to the first
// implementation that supports the problem. All are also `torch.ops.penstock.<name>`.
// Inputs are checked; a violated requirement throws penstock::Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace penstock::ops {

/// Affine map.  y = x · wᵀ + b
/// @param x [..., in] f32|f64;  @param w [out, in];  @param b [out] or nullopt
/// Gradient: x, w, b.
at::Tensor linear(const at::Tensor& x, const at::Tensor& w,
                  const std::optional<at::Tensor>& b = std::nullopt);

/// Root-mean-square norm over the last axis.  y = x · gain / sqrt(mean(x²) + eps)
/// @param x [..., d];  @param gain [d].  Gradient: x, gain.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& gain, double eps);

/// Adds `delta` to the residual stream `x` and normalises the sum, in one sweep.
///   h = x + delta,  n = rms_norm(h, gain, eps)
/// @param x, delta [..., d];  @param gain [d].  @return h, n [..., d]
/// Gradient: x, delta, gain. x and delta get one tensor: dh plus the gradient of n through the
/// norm.
std::tuple<at::Tensor, at::Tensor> add_rms_norm(const at::Tensor& x, const at::Tensor& delta,
                                                const at::Tensor& gain, double eps);

/// Causal softmax attention over a packed projection, with grouped queries and rotary positions:
/// head h reads key/value head h / (H/G).
///   y_t = Σ_{s ≤ t} softmax_s(q_t·k_s · scale) v_s,   s ≥ start[b, t] where given
/// @param qkv [B, T, (H+2G)·hd] f32|f64: H query heads, G key heads, G value heads
/// @param rotation [T, hd]: see rotation_table; it rotates queries and keys.  nullopt: no rotation
/// @param rope_adjacent  true: rotates pairs (2i, 2i+1); false: rotates pairs (i, i + hd/2), as
/// Hugging Face's Llama does
/// @param start [B, T] i64: first position that row t may read (document borders), or nullopt
/// @return [B, T, H·hd].  Gradient: qkv.
at::Tensor causal_attention(const at::Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                            double scale, const std::optional<at::Tensor>& rotation = std::nullopt,
                            bool rope_adjacent = false,
                            const std::optional<at::Tensor>& start = std::nullopt);

/// The cosines, then the sines, of the rotary angles of each position. The angle of pair i at
/// position p is p · base^(−2i/hd). Computes in f64 and rounds once.
/// @return [length, hd], typed by `options`.
at::Tensor rotation_table(std::int64_t length, std::int64_t head_dim, double base,
                          const at::TensorOptions& options = {});

/// Softmax attention with relative positions, over a segment of T positions and a memory of M
/// positions before it. Row t is at position M + t of K = M + T and reads positions 0 .. M + t.
///   y_t = Σ_j softmax_j(((q_t + u)·k_j + (q_t + v)·r_{M+t−j}) · scale) value_j,   j ≤ M + t
/// @param q  [B, T, H·hd] f32|f64
/// @param kv [B, K, 2·H·hd], K ≥ T: H key heads, then H value heads
/// @param r  [K, H·hd]: row δ is the projected position of distance δ
/// @param u, v [H, hd].  @return [B, T, H·hd].  Gradient: q, kv, r, u, v.
/// Source: Transformer-XL, arXiv:1901.02860, §3.3 and Appendix B.
at::Tensor relative_attention(const at::Tensor& q, const at::Tensor& kv, const at::Tensor& r,
                              const at::Tensor& u, const at::Tensor& v, double scale);

/// Dropout.  y = x ⊙ keep / (1 − p).  The mask is a pure function of the seed and the element's
/// index. So no mask is kept for the backward pass, and the number of threads does not change the
/// bits.
/// @param x [..., n] f32|f64, taken as rows of n;  @param p in [0, 1).  Gradient: x.
at::Tensor dropout(const at::Tensor& x, double p, std::int64_t seed);

/// The keys from which dropout draws the mask of rows [first, first + rows) for the seed. A rank
/// that computes these rows passes them on in ExpertOptions::dropout_keys.  @return [rows] i64 on
/// the CPU.
at::Tensor dropout_keys(std::int64_t seed, std::int64_t first, std::int64_t rows);

/// Gated unit of a fused projection.  y = silu(x[..., :f]) · x[..., f:]
/// @param x [..., 2f].  @return [..., f].  Gradient: x.
at::Tensor swiglu(const at::Tensor& x);

/// The bytes of logits that a loss may hold at a time.
inline constexpr std::int64_t kLogitsBytes = std::int64_t{32} << 20;

/// Mean cross-entropy of a linear head, in nats. It never holds all logits.
///   y = mean_r (logsumexp(z_r) − z_r[target_r]),  z = hidden · wᵀ;  0 for no rows
/// Computes rows in chunks whose logits take at most `logits_bytes` (at least one row).
/// @param hidden [R, d] f32|f64;  @param w [V, d];  @param targets [R] i64 in [0, V).  @return [].
/// Gradient: hidden, w. The forward pass computes the gradients that are wanted, so its memory is
/// their size plus one chunk's logits.
at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& w,
                                const at::Tensor& targets,
                                std::int64_t logits_bytes = kLogitsBytes);

/// The cross-entropy of each row.  @return [R], without gradient; see linear_cross_entropy.
at::Tensor linear_cross_entropy_rows(const at::Tensor& hidden, const at::Tensor& w,
                                     const at::Tensor& targets,
                                     std::int64_t logits_bytes = kLogitsBytes);

/// The assignments of T tokens to E experts: A assignments, sorted by expert, then by token. Also
/// the sums over the logits that route_topk and route_relu compute on the way.
struct Route {
  at::Tensor weight;            ///< [A], differentiable
  at::Tensor token, expert;     ///< [A] i64
  at::Tensor offsets;           ///< [E+1] i64 on the CPU: expert e owns [offsets[e], offsets[e+1])
  at::Tensor by_token;          ///< [A] i64, the assignments by token, then expert
  at::Tensor token_offsets;     ///< [T+1] i64: as offsets, the range of token t in by_token
  at::Tensor mean_probability;  ///< route_topk: [E], mean over tokens of softmax(z_t)
  at::Tensor logsumexp;         ///< route_topk: [T], of z_t
  at::Tensor gate_sums;         ///< route_relu: [E], sums of the weights
};

/// Chooses the k largest logits of each row. The lower expert wins ties; NaN counts as smallest.
///   weight = softmax(z_t)_e, or with `over_kept` the softmax over the kept logits alone
/// A row with a NaN has NaN weights, so the NaN shows in the loss.
/// @param logits [T, E] f32|f64;  k in [1, E].  Gradient: logits, from the weights,
/// mean_probability and logsumexp.  Cost: one pass over the logits, one more for the gradient.
Route route_topk(const at::Tensor& logits, std::int64_t k, bool over_kept);

/// Chooses every logit that is not ≤ 0. The logit is the assignment's weight. A NaN is chosen, so
/// it shows in the loss.
/// @param logits [T, E] f32|f64.  Gradient: logits, from the weights and gate_sums.
/// Cost: one pass over the logits and one over the chosen ones.
Route route_relu(const at::Tensor& logits);

/// Takes the assignments from a mask: {(e, t) : mask[t, e]}, weight = gates[t, e]. Computes no
/// sums.
/// @param gates [T, E] f32|f64;  @param mask [T, E] bool.  Gradient: gates, where masked.
Route route_mask(const at::Tensor& gates, const at::Tensor& mask);

/// Row lookup. Its gradient has the same bits in every run.  y = weight[ids]
/// @param weight [V, d];  @param ids [...] i64 in [0, V).  @return [..., d].  Gradient: weight.
at::Tensor embedding(const at::Tensor& weight, const at::Tensor& ids);

/// The activation between an expert's two products.
enum class Activation {
  swiglu,  ///< silu(g) ⊙ u of the halves [g; u]: m = 2
  relu,    ///< max(a, 0): m = 1
};
/// "swiglu" or "relu"; throws Error on another name.
Activation parse_activation(const std::string& name);

struct ExpertOptions {
  std::optional<at::Tensor> b_in, b_out;  ///< [E, m·f] and [E, d]
  Activation activation = Activation::swiglu;
  /// true: keeps nothing of size A·f for the backward pass, which computes these values again from
  /// hidden. The bits are the same, for a third more products.
  bool recompute = false;
  /// The probability of dropout of act(..). It drops element j of assignment a if ops::dropout of
  /// an [A, f] tensor would drop element (a, j).
  double dropout = 0;
  std::int64_t dropout_seed = 0;
  /// [A] i64 on the CPU: the dropout key of each assignment, from dropout_keys(). They replace the
  /// keys from (seed, a).
  std::optional<at::Tensor> dropout_keys;
};

/// The experts' feed-forward networks, applied to the assignments of a plan. Gathers the tokens'
/// rows, and scatters the weighted results.
///   y_t = Σ_{a : token_a = t} weight_a · FFN_{expert_a}(hidden_t),
///   FFN_e(h) = w_out[e] · drop(act(w_in[e] · h + b_in[e])) + b_out[e]
/// @param hidden        [T, d] f32|f64
/// @param weight        [A];  @param token [A] i64;  @param offsets [E+1] i64 CPU
/// @param by_token      [A] i64;  @param token_offsets [T+1] i64 (see Plan)
/// @param w_in          [E, m·f, d], gate rows first;  @param w_out [E, d, f]
/// @return [T, d]; rows without an assignment are zero.
/// Gradient: hidden, weight, w_in, w_out, b_in, b_out (zero for experts without tokens).
/// Memory besides the result: at most max(2T, 8192) rows at a time, or the rows of one expert if
/// they are more. With gradients it keeps A·m·f floats, unless it recomputes them.
at::Tensor expert_ffn(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& token,
                      const at::Tensor& offsets, const at::Tensor& by_token,
                      const at::Tensor& token_offsets, const at::Tensor& w_in,
                      const at::Tensor& w_out, const ExpertOptions& options = {});

/// One fused AdamW step over many tensors, in place, with decoupled weight decay:
///   m ← β1 m + (1−β1) g·c;  v ← β2 v + (1−β2)(g·c)²
///   w ← w − lr·(decay·w + (m/(1−β1^t)) / (sqrt(v/(1−β2^t)) + eps)),   c = grad_scale
/// All lists have equal length. `decay` holds one value per tensor.
/// Moments have the weights' type, or both are bf16. The step rounds bf16 moments stochastically
/// after it has used them. It rounds away from zero with a probability equal to the fraction that
/// is cut off, so that changes smaller than a rounding unit are not lost. The draw is a hash of the
/// step and of the upper 16 bits of w and g in f32. So it is the same for any division over threads
/// and ranks, and nearly always the same for gradients that are summed in another order.
struct AdamWOptions {
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, grad_scale = 1;
  std::int64_t step = 1;  ///< t, from 1
};
void adamw_step(const std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& grads,
                const std::vector<at::Tensor>& m, const std::vector<at::Tensor>& v,
                const std::vector<double>& decay, const AdamWOptions& options);

/// Square root of the sum of squares over all tensors, accumulated in f64 in a fixed order.
double global_norm(const std::vector<at::Tensor>& tensors);

}  // namespace penstock::ops
