// The expert feed-forward of stored experts. For few tokens, the kernel reads the experts as they
// are stored. For many tokens, a few experts at a time are expanded, and ops::expert_ffn runs over
// their part of the plan.
#include <ATen/ATen.h>

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/ops/cpu/few_rows/dot_rows.h"
#include "penstock/ops/cpu/few_rows/expert_rows.h"
#include "penstock/ops/cpu/few_rows/int8_rows.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/rows_alone.h"
#include "penstock/ops/stored_matrix.h"

namespace penstock::ops {
namespace {

/// The most numbers that are expanded at a time, unless one expert has more.
constexpr std::int64_t kExpanded = std::int64_t{4} << 20;

std::int64_t inputs_of(const StoredExperts& experts) {
  return static_cast<std::int64_t>(experts.in.size()) / experts.count();
}

at::Tensor few_tokens(const at::Tensor& hidden, const PlanTensors& plan,
                      const StoredExperts& experts, Activation activation) {
  const auto inputs = static_cast<std::size_t>(inputs_of(experts));
  const auto matrices = [&](std::int64_t expert) {
    const auto e = static_cast<std::size_t>(expert);
    cpu::ExpertMatrices out{.in = {}, .out = {experts.out[e]}};
    for (std::size_t i = 0; i < inputs; ++i) out.in[i] = {experts.in[e * inputs + i]};
    return out;
  };
  return cpu::few_rows_experts({.hidden = hidden,
                                .weight = plan.weight,
                                .token = plan.token,
                                .offsets = plan.offsets,
                                .inner = experts.inner,
                                .activation = activation},
                               matrices);
}

/// A plan for the experts [first, last) alone.
PlanTensors part_of(const PlanTensors& plan, std::int64_t first, std::int64_t last) {
  const at::Tensor offsets = plan.offsets.slice(0, first, last + 1);
  const auto begin = offsets[0].item<std::int64_t>(), end = offsets[-1].item<std::int64_t>();
  const at::Tensor by_token = plan.by_token.contiguous(), owners = plan.token.contiguous();
  const auto* all = by_token.data_ptr<std::int64_t>();
  const auto* owner = owners.data_ptr<std::int64_t>();
  at::Tensor mine = at::empty({end - begin}, at::kLong),
             counts = at::zeros_like(plan.token_offsets);
  auto* to = mine.data_ptr<std::int64_t>();
  auto* count = counts.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < by_token.numel(); ++i) {
    if (all[i] < begin || all[i] >= end) continue;
    *to++ = all[i] - begin;
    ++count[owner[all[i]] + 1];
  }
  return {.weight = plan.weight.slice(0, begin, end).contiguous(),
          .token = plan.token.slice(0, begin, end).contiguous(),
          .offsets = (offsets - begin).contiguous(),
          .by_token = mine,
          .token_offsets = counts.cumsum(0)};
}

/// Expands `count` matrices of `rows` rows.  @return [count, rows, depth]
at::Tensor expanded(const std::vector<StoredRows>& all, std::int64_t first, std::int64_t count,
                    std::int64_t rows, std::int64_t depth) {
  const auto begin = all.begin() + first;
  const StoredMatrix matrix{.depth = depth, .pieces = {begin, begin + count}};
  return expand(matrix, 0, matrix.rows()).view({-1, rows, depth});
}

at::Tensor expert_groups(const at::Tensor& hidden, const PlanTensors& plan,
                         const StoredExperts& experts, Activation activation) {
  const std::int64_t inputs = inputs_of(experts), d = experts.width, f = experts.inner;
  const std::int64_t group =
      std::clamp<std::int64_t>(kExpanded / ((inputs + 1) * d * f), 1, experts.count());
  const PrecisionScope scope(cpu::precision_of_many({experts.in, experts.out}));
  at::Tensor y;
  for (std::int64_t first = 0; first < experts.count(); first += group) {
    const std::int64_t count = std::min(group, experts.count() - first);
    const PlanTensors part = part_of(plan, first, first + count);
    if (y.defined() && part.token.size(0) == 0) continue;
    const at::Tensor own =
        expert_ffn(hidden, part.weight, part.token, part.offsets, part.by_token, part.token_offsets,
                   expanded(experts.in, first * inputs, count * inputs, inputs * f, d),
                   expanded(experts.out, first, count, d, f), {.activation = activation});
    y = y.defined() ? y.add_(own) : own;
  }
  return y;
}

/// The bytes of all matrices of the experts that have assignments.
std::int64_t bytes_in_use(const PlanTensors& plan, const StoredExperts& experts) {
  const auto* offsets = plan.offsets.data_ptr<std::int64_t>();
  const auto inputs = static_cast<std::size_t>(inputs_of(experts));
  std::int64_t out = 0;
  for (std::size_t e = 0; e < experts.out.size(); ++e) {
    if (offsets[e + 1] == offsets[e]) continue;
    out += experts.width * row_bytes(experts.out[e].type, experts.inner);
    for (std::size_t i = 0; i < inputs; ++i)
      out += experts.inner * row_bytes(experts.in[e * inputs + i].type, experts.width);
  }
  return out;
}

using Ffn = at::Tensor(const at::Tensor&, const PlanTensors&, const StoredExperts&, Activation);

const Implementations<Ffn>& list() {
  static const Implementations<Ffn> entries(
      "stored_expert_ffn",
      {{"rows",
        [](const at::Tensor& hidden, const PlanTensors&, const StoredExperts&, Activation) {
          return std::string(takes_few_rows(hidden.size(0)) ? "" : "more than 16 tokens");
        },
        few_tokens},
       {"expand", nullptr, expert_groups}},
      [](const at::Tensor& hidden, const PlanTensors& plan, const StoredExperts& experts,
         Activation) {
        // For many tokens, the operator on expanded experts counts the products.
        const std::int64_t of_one = (inputs_of(experts) + 1) * experts.width * experts.inner,
                           rows = takes_few_rows(hidden.size(0)) ? plan.token.size(0) : 0;
        return Cost{.flops = 2.0 * static_cast<double>(rows * of_one),
                    .bytes = static_cast<double>(bytes_in_use(plan, experts))};
      });
  return entries;
}

}  // namespace

std::string describe(const PlanTensors& plan) { return concat("A ", plan.token.size(0)); }
std::string describe(Activation activation) {
  return activation == Activation::swiglu ? "swiglu" : "relu";
}
std::string describe(const StoredExperts& experts) {
  return concat(row_type_name(experts.out.front().type), ", E ", experts.count(), ", f ",
                experts.inner);
}

at::Tensor expert_ffn(const at::Tensor& hidden, const PlanTensors& plan,
                      const StoredExperts& experts, Activation activation) {
  PENSTOCK_CHECK(hidden.scalar_type() == at::kFloat && hidden.device().is_cpu() &&
                     hidden.dim() == 2 && hidden.size(1) == experts.width,
                 "[expert_ffn] hidden ", describe(hidden), " must be f32 [T, ", experts.width,
                 "] on the CPU for stored experts");
  return list().run(hidden, plan, experts, activation);
}

}  // namespace penstock::ops
