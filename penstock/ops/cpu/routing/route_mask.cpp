// Routes from masks, by counting sort in two passes over the mask.
#include <ATen/ATen.h>

#include <bit>
#include <cstring>
#include <vector>

#include "penstock/ops/route.h"

namespace penstock::ops::cpu {
namespace {

/// Calls visit(t, e) for the true entries of a row-major [tokens, experts] mask, row by row. It
/// reads eight entries as one word, and finds the word's set bytes by bit scan. A branch for each
/// entry would be hard to predict in half-full masks.
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

}  // namespace

std::string declines_route_mask(const at::Tensor& mask) {
  return mask.is_cpu() ? "" : "not on the CPU";
}

Route route_mask(const at::Tensor& mask) {
  const std::int64_t tokens = mask.size(0), experts = mask.size(1);
  const at::Tensor bytes = mask.contiguous();
  const bool* set = bytes.data_ptr<bool>();
  const auto index = at::TensorOptions().dtype(at::kLong);

  Route route;
  route.offsets = at::zeros({experts + 1}, index);
  route.token_offsets = at::zeros({tokens + 1}, index);
  auto* offsets = route.offsets.data_ptr<std::int64_t>();
  auto* token_offsets = route.token_offsets.data_ptr<std::int64_t>();
  for_each_set(set, tokens, experts, [&](std::int64_t t, std::int64_t e) {
    ++offsets[e + 1];
    ++token_offsets[t + 1];
  });
  for (std::int64_t e = 0; e < experts; ++e) offsets[e + 1] += offsets[e];
  for (std::int64_t t = 0; t < tokens; ++t) token_offsets[t + 1] += token_offsets[t];

  const std::int64_t count = offsets[experts];
  route.token = at::empty({count}, index);
  route.expert = at::empty({count}, index);
  route.by_token = at::empty({count}, index);
  auto* token = route.token.data_ptr<std::int64_t>();
  auto* expert = route.expert.data_ptr<std::int64_t>();
  auto* by_token = route.by_token.data_ptr<std::int64_t>();
  std::vector<std::int64_t> next(offsets, offsets + experts);
  // The rows are in token order, so each expert's assignments are in token order.
  for_each_set(set, tokens, experts, [&](std::int64_t t, std::int64_t e) {
    const std::int64_t a = next[e]++;
    token[a] = t;
    expert[a] = e;
    *by_token++ = a;
  });
  return route;
}

}  // namespace penstock::ops::cpu
