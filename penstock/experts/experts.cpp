#include "penstock/experts/experts.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/experts/blend.h"
#include "penstock/experts/token_exchange.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/optional_tensor.h"

namespace penstock {
namespace {

/// x_s · w_sᵀ of each segment: [S, len, in] and [S, out, in] give [S, len, out].
at::Tensor segment_products(const at::Tensor& x, const at::Tensor& w) {
  if (ops::product_precision() == ops::ProductPrecision::fp32) return x.bmm(w.transpose(1, 2));
  // Uses ops::linear, which applies the precision. One unbind() per operand takes all segments
  // apart, so that autograd joins their gradients once.
  const auto rows = x.unbind(0), weights = w.unbind(0);
  std::vector<at::Tensor> out;
  for (std::size_t s = 0; s < rows.size(); ++s) out.push_back(ops::linear(rows[s], weights[s]));
  return at::stack(out);
}

}  // namespace

Experts::Experts(std::int64_t experts, std::int64_t d_model, std::int64_t d_ffn, FfnForm form,
                 dist::ProcessGroup group)
    : form_(form), group_(std::move(group)) {
  PENSTOCK_CHECK(experts > 0 && d_model > 0 && d_ffn > 0,
                 "experts need sizes above 0, not E = ", experts, ", d = ", d_model,
                 ", f = ", d_ffn);
  PENSTOCK_CHECK(experts % group_.size() == 0, experts, " experts cannot be shared evenly by ",
                 group_.size(), " ranks; take a number of ranks that divides them");
  const std::string in = form.input_name();
  const std::int64_t local = experts / group_.size(), rows = form.inputs() * d_ffn;
  gate_up_ = register_parameter(in, at::empty({local, rows, d_model}));
  if (form.bias) in_bias_ = register_parameter(in + "_bias", at::zeros({local, rows}));
  down_ = register_parameter("down", at::empty({local, d_model, d_ffn}));
  if (form.bias) out_bias_ = register_parameter("down_bias", at::zeros({local, d_model}));
}

void Experts::describe(std::int64_t experts, std::int64_t d_model, std::int64_t d_ffn,
                       const FfnForm& form, const LayerTensors& at) {
  form.describe(d_model, d_ffn, TensorRole::expert, at.of_each(experts));
}

void Experts::initialize(double std, double down_std, const InitialDraws& draws) {
  draws.normal(form_.input_name(), gate_up_, std, 0, group_.rank() * gate_up_.numel());
  draws.normal("down", down_, down_std, 0, group_.rank() * down_.numel());
}

at::Tensor Experts::forward(const at::Tensor& hidden, const Plan& plan,
                            std::optional<std::int64_t> dropout_seed,
                            const OverlappedWork& meanwhile) {
  PENSTOCK_CHECK(hidden.dim() == 2 && hidden.size(1) == gate_up_.size(2),
                 "experts take hidden [T, ", gate_up_.size(2), "], not ", hidden.sizes());
  PENSTOCK_CHECK(plan.tokens == hidden.size(0) && plan.experts == count(), "a plan for ",
                 plan.tokens, " tokens and ", plan.experts, " experts does not fit ",
                 hidden.size(0), " tokens and ", count(), " experts");
  if (form_.dropout == 0) dropout_seed.reset();
  if (!sends_rows(plan)) {
    PENSTOCK_ASSERT(!meanwhile.rows_leave && !meanwhile.results_return);
    return plan.merges() ? merged(hidden, plan, dropout_seed)
                         : assigned(hidden, plan, dropout_seed, {});
  }
  const TokenExchange exchange(plan, group_, dropout_seed);
  const ArrivedRows arrived = exchange.send(hidden, plan.weight, meanwhile.rows_leave);
  return exchange.bring_back(
      assigned(arrived.hidden, arrived.plan, dropout_seed, arrived.dropout_keys),
      meanwhile.results_return);
}

at::Tensor Experts::assigned(const at::Tensor& hidden, const Plan& plan,
                             std::optional<std::int64_t> dropout_seed,
                             const at::Tensor& dropout_keys) const {
  PENSTOCK_ASSERT(stored_.in.empty() == stored_.out.empty());
  if (!stored_.out.empty())
    return ops::expert_ffn(hidden,
                           {.weight = plan.weight,
                            .token = plan.token,
                            .offsets = plan.offsets,
                            .by_token = plan.by_token,
                            .token_offsets = plan.token_offsets},
                           stored_, form_.activation);
  return ops::expert_ffn(hidden, plan.weight, plan.token, plan.offsets, plan.by_token,
                         plan.token_offsets, gate_up_, down_,
                         {.b_in = ops::if_defined(in_bias_),
                          .b_out = ops::if_defined(out_bias_),
                          .activation = form_.activation,
                          .recompute = recompute,
                          .dropout = dropout_seed ? form_.dropout : 0.0,
                          .dropout_seed = dropout_seed.value_or(0),
                          .dropout_keys = ops::if_defined(dropout_keys)});
}

bool Experts::read_from(const std::string& parameter, const ops::StoredMatrix& matrix) {
  const bool in = parameter == form_.input_name();
  if (form_.bias || (!in && parameter != "down")) return false;
  const std::int64_t inner = down_.size(2);
  PENSTOCK_ASSERT(std::ranges::all_of(matrix.pieces, [&](const ops::StoredRows& piece) {
    return piece.rows == (in ? inner : down_.size(1));
  }));
  give_up(in ? gate_up_ : down_, matrix);
  stored_.width = down_.size(1);
  stored_.inner = inner;
  (in ? stored_.in : stored_.out) = matrix.pieces;
  return true;
}

at::Tensor Experts::merged(const at::Tensor& hidden, const Plan& plan,
                           std::optional<std::int64_t> dropout_seed) const {
  const std::int64_t segments = plan.merge_weights.size(0), width = hidden.size(1);
  const Blend blend(plan.merge_weights, group_);
  const at::Tensor rows = hidden.reshape({segments, plan.segment_length, width});
  at::Tensor in = segment_products(rows, blend.of(gate_up_));  // [S, len, m·f]
  if (form_.bias) in = in + blend.of(in_bias_).unsqueeze(1);
  at::Tensor inner = activate(form_, in);  // [S, len, f]
  if (dropout_seed) inner = ops::dropout(inner, form_.dropout, *dropout_seed);
  at::Tensor y = segment_products(inner, blend.of(down_));
  if (form_.bias) y = y + blend.of(out_bias_).unsqueeze(1);
  return y.reshape({plan.tokens, width});  // [T, d]
}

}  // namespace penstock
