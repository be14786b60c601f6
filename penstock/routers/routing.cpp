// Builds plans from gates and masks. What is selected, and with which gate, is the selectors'
// matter.
#include "penstock/routers/routing.h"

#include <torch/torch.h>

#include <bit>
#include <cstring>

#include "penstock/base/error.h"

namespace penstock {
namespace {

void check(const at::Tensor& gates, const at::Tensor& mask) {
  PENSTOCK_CHECK(gates.dim() == 2 && gates.sizes() == mask.sizes(), "make_plan: gates ",
                 gates.sizes(), " and mask ", mask.sizes(), " must both be [T, E]");
  PENSTOCK_CHECK(mask.scalar_type() == at::kBool, "make_plan: the mask must be bool, not ",
                 mask.scalar_type());
  PENSTOCK_CHECK(gates.device() == mask.device(), "make_plan: gates on ", gates.device(),
                 ", mask on ", mask.device());
}

/// Calls visit(t, e) for the true entries of a row-major [tokens, experts] mask, rows first. Eight
/// entries are read as one word and its set bytes listed by bit scan: half-full masks, as ReLU has
/// at first, would defeat branch prediction entry by entry.
template <class Visit>
void for_each_set(const bool* mask, std::int64_t tokens, std::int64_t experts, Visit&& visit) {
  static_assert(std::endian::native == std::endian::little && sizeof(bool) == 1);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const bool* row = mask + t * experts;
    for (std::int64_t e = 0; e < experts; e += 8) {
      std::uint64_t word = 0;
      if (e + 8 <= experts)
        std::memcpy(&word, row + e, 8);
      else
        std::memcpy(&word, row + e, static_cast<std::size_t>(experts - e));
      for (; word != 0; word &= word - 1) visit(t, e + std::countr_zero(word) / 8);
    }
  }
}

/// weight = gates at flat positions that are all different, so the gradient's scatter is
/// deterministic.
at::Tensor gather_weights(const at::Tensor& gates, const at::Tensor& flat) {
  return gates.flatten().gather(0, flat);
}

}  // namespace

Plan make_plan(const at::Tensor& gates, const at::Tensor& mask) {
  check(gates, mask);
  if (!mask.is_cpu()) return make_plan_reference(gates, mask);
  const std::int64_t tokens = mask.size(0), experts = mask.size(1);
  const at::Tensor bytes = mask.contiguous();
  const bool* set = bytes.data_ptr<bool>();
  const auto index = at::TensorOptions().dtype(at::kLong);

  Plan plan{.tokens = tokens, .experts = experts};
  plan.offsets = at::zeros({experts + 1}, index);
  plan.token_offsets = at::zeros({tokens + 1}, index);
  auto* offsets = plan.offsets.data_ptr<std::int64_t>();
  auto* token_offsets = plan.token_offsets.data_ptr<std::int64_t>();
  for_each_set(set, tokens, experts, [&](std::int64_t t, std::int64_t e) {
    ++offsets[e + 1];
    ++token_offsets[t + 1];
  });
  for (std::int64_t e = 0; e < experts; ++e) offsets[e + 1] += offsets[e];
  for (std::int64_t t = 0; t < tokens; ++t) token_offsets[t + 1] += token_offsets[t];

  const std::int64_t count = offsets[experts];
  plan.token = at::empty({count}, index);
  plan.expert = at::empty({count}, index);
  plan.by_token = at::empty({count}, index);
  const at::Tensor flat = at::empty({count}, index);
  auto* token = plan.token.data_ptr<std::int64_t>();
  auto* expert = plan.expert.data_ptr<std::int64_t>();
  auto* by_token = plan.by_token.data_ptr<std::int64_t>();
  auto* position = flat.data_ptr<std::int64_t>();
  std::vector<std::int64_t> next(offsets, offsets + experts);
  // Rows in token order, so that each expert's assignments come out in token order.
  for_each_set(set, tokens, experts, [&](std::int64_t t, std::int64_t e) {
    const std::int64_t a = next[e]++;
    token[a] = t;
    expert[a] = e;
    position[a] = t * experts + e;
    *by_token++ = a;
  });
  plan.weight = gather_weights(gates, flat);  // [A]
  return plan;
}

Plan make_plan_reference(const at::Tensor& gates, const at::Tensor& mask) {
  check(gates, mask);
  Plan plan{.tokens = mask.size(0), .experts = mask.size(1)};
  const auto prefix_sums = [](const at::Tensor& counts) {
    return at::cat({at::zeros({1}, counts.options()), counts.cumsum(0)});
  };
  const at::Tensor pairs = mask.t().nonzero();  // [A, 2], by expert, then token
  plan.expert = pairs.select(1, 0).contiguous();
  plan.token = pairs.select(1, 1).contiguous();
  const at::Tensor flat = plan.token * plan.experts + plan.expert;
  plan.offsets = prefix_sums(mask.sum(0)).cpu();
  plan.token_offsets = prefix_sums(mask.sum(1));
  const at::Tensor rank = at::zeros({plan.tokens * plan.experts}, flat.options());
  rank.index_copy_(0, flat, at::arange(flat.size(0), flat.options()));
  plan.by_token = rank.masked_select(mask.flatten());
  plan.weight = gather_weights(gates, flat);  // [A]
  return plan;
}

Plan make_merge_plan(const at::Tensor& weights, std::int64_t tokens, std::int64_t segment_length) {
  PENSTOCK_CHECK(
      weights.dim() == 2 && segment_length > 0 && weights.size(0) * segment_length == tokens,
      "make_merge_plan: ", tokens, " tokens in segments of ", segment_length,
      " do not match weights ", weights.sizes());
  Plan plan{.tokens = tokens, .experts = weights.size(1)};
  plan.merge_weights = weights;
  plan.segment_length = segment_length;
  return plan;
}

at::Tensor expert_counts(const Plan& plan) {
  PENSTOCK_ASSERT(!plan.merges(), "a merging plan has no assignments to count");
  return plan.offsets.slice(0, 1) - plan.offsets.slice(0, 0, plan.experts);
}

double sparsity(const Plan& plan) {
  if (plan.merges() || plan.tokens == 0 || plan.experts == 0) return 0;
  return 1 - static_cast<double>(plan.assignments()) /
                 (static_cast<double>(plan.tokens) * static_cast<double>(plan.experts));
}

}  // namespace penstock
