#include "penstock/ops/expert_check.h"

#include <ATen/ATen.h>

#include "penstock/base/error.h"

namespace penstock::ops {
namespace {

void check_shapes(const ExpertProblem& p) {
  PENSTOCK_CHECK(p.hidden.dim() == 2, "[expert_ffn] hidden must be [T, d], not ", p.hidden.sizes());
  PENSTOCK_CHECK(p.w_out.dim() == 3 && p.w_in.dim() == 3 && p.w_in.size(0) == p.w_out.size(0) &&
                     p.w_in.size(1) == p.inputs() * p.w_out.size(2) &&
                     p.w_in.size(2) == p.width() && p.w_out.size(1) == p.width(),
                 "[expert_ffn] w_in ", p.w_in.sizes(), " and w_out ", p.w_out.sizes(),
                 " must be [E, ", p.inputs() == 2 ? "2f" : "f", ", d] and [E, d, f] for hidden ",
                 p.hidden.sizes());
  PENSTOCK_CHECK(!p.b_in.defined() || p.b_in.sizes() == p.w_in.sizes().slice(0, 2),
                 "[expert_ffn] b_in ", p.b_in.sizes(), " must be w_in's first two sizes");
  PENSTOCK_CHECK(!p.b_out.defined() || p.b_out.sizes() == p.w_out.sizes().slice(0, 2),
                 "[expert_ffn] b_out ", p.b_out.sizes(), " must be w_out's first two sizes");
  PENSTOCK_CHECK(p.token.dim() == 1 && p.weight.sizes() == p.token.sizes() &&
                     p.by_token.sizes() == p.token.sizes(),
                 "[expert_ffn] weight ", p.weight.sizes(), ", token ", p.token.sizes(),
                 " and by_token ", p.by_token.sizes(), " must all be [A]");
  PENSTOCK_CHECK(p.offsets.dim() == 1 && p.offsets.size(0) == p.experts() + 1,
                 "[expert_ffn] offsets ", p.offsets.sizes(),
                 " must be [E+1] with E = ", p.experts());
  PENSTOCK_CHECK(p.token_offsets.dim() == 1 && p.token_offsets.size(0) == p.tokens() + 1,
                 "[expert_ffn] token_offsets ", p.token_offsets.sizes(),
                 " must be [T+1] with T = ", p.tokens());
}

void check_types(const ExpertProblem& p) {
  const auto type = p.hidden.scalar_type();
  PENSTOCK_CHECK(type == at::kFloat || type == at::kDouble, "[expert_ffn] hidden is ", type,
                 "; f32 and f64 are supported");
  for (const at::Tensor* tensor : {&p.weight, &p.w_in, &p.w_out, &p.b_in, &p.b_out})
    PENSTOCK_CHECK(!tensor->defined() ||
                       (tensor->scalar_type() == type && tensor->device() == p.hidden.device()),
                   "[expert_ffn] weight, w_in, w_out, b_in and b_out must have hidden's type and "
                   "device");
  for (const at::Tensor* tensor : {&p.token, &p.by_token, &p.token_offsets})
    PENSTOCK_CHECK(tensor->scalar_type() == at::kLong && tensor->device() == p.hidden.device(),
                   "[expert_ffn] token, by_token and token_offsets must be i64 on hidden's device");
  PENSTOCK_CHECK(p.offsets.scalar_type() == at::kLong && p.offsets.device().is_cpu() &&
                     p.offsets.is_contiguous(),
                 "[expert_ffn] offsets must be contiguous i64 on the CPU");
}

/// Throws Error unless `offsets` ascends from 0 to `last`. REQUIRES: contiguous i64 on the CPU.
void check_ascending(const at::Tensor& offsets, std::int64_t last, const char* name) {
  const std::int64_t* values = offsets.data_ptr<std::int64_t>();
  const std::int64_t count = offsets.size(0);
  bool good = values[0] == 0 && values[count - 1] == last;
  for (std::int64_t i = 1; i < count; ++i) good = good && values[i - 1] <= values[i];
  PENSTOCK_CHECK(good, "[expert_ffn] ", name, " must ascend from 0 to A = ", last);
}

void check_tokens(const ExpertProblem& p) {
  const at::Tensor token = p.token.contiguous(), by_token = p.by_token.contiguous(),
                   token_offsets = p.token_offsets.contiguous();
  check_ascending(token_offsets, p.assignments(), "token_offsets");
  const std::int64_t* starts = token_offsets.data_ptr<std::int64_t>();
  const std::int64_t* order = by_token.data_ptr<std::int64_t>();
  const std::int64_t* tokens = token.data_ptr<std::int64_t>();
  // A token's entries ascend and belong to the token. So by_token lists each assignment exactly
  // once.
  for (std::int64_t t = 0; t < p.tokens(); ++t)
    for (std::int64_t i = starts[t]; i < starts[t + 1]; ++i)
      PENSTOCK_CHECK(order[i] >= 0 && order[i] < p.assignments() && tokens[order[i]] == t &&
                         (i == starts[t] || order[i - 1] < order[i]),
                     "[expert_ffn] by_token[", i, "] = ", order[i],
                     " is not the next assignment of token ", t, " of ", p.tokens());
}

}  // namespace

void check_expert_problem(const ExpertProblem& p) {
  for (const at::Tensor* tensor : {&p.hidden, &p.weight, &p.token, &p.offsets, &p.by_token,
                                   &p.token_offsets, &p.w_in, &p.w_out})
    PENSTOCK_CHECK(tensor->defined(), "[expert_ffn] an argument is missing");
  check_shapes(p);
  check_types(p);
  PENSTOCK_CHECK(p.dropout >= 0 && p.dropout < 1, "[expert_ffn] dropout ", p.dropout,
                 " must be at least 0 and below 1");
  PENSTOCK_CHECK(
      !p.dropout_keys.defined() ||
          (p.dropout_keys.sizes() == p.token.sizes() && p.dropout_keys.scalar_type() == at::kLong &&
           p.dropout_keys.device().is_cpu() && p.dropout_keys.is_contiguous()),
      "[expert_ffn] dropout_keys must be contiguous i64 [A] on the CPU");
  check_ascending(p.offsets, p.assignments(), "offsets");
  if (p.hidden.device().is_cpu()) check_tokens(p);
}

}  // namespace penstock::ops
