// ReLU routing in f32. The first pass reads the logits, and computes a bit for each pair of token
// and expert, counts and sums. The second pass puts the pairs whose bit is set in expert order.
#include <ATen/ATen.h>

#include <bit>
#include <vector>

#include "penstock/ops/cpu/routing/route_blocks.h"
#include "penstock/ops/optional_tensor.h"
#include "penstock/ops/route.h"

namespace penstock::ops::cpu {
namespace {

/// Marks the entries of tokens [begin, end) that are not ≤ 0.
/// @param bits [T, padded E / 16];  @param taken [T + 1], at t + 1 the number of t's experts
PENSTOCK_PER_CPU void mark_rows(const float* logits, std::int64_t tokens, std::int64_t begin,
                                std::int64_t end, std::int64_t experts, float* buffer,
                                std::uint16_t* bits, std::int64_t* taken, std::int32_t* counts,
                                float* sums) {
  const std::int64_t width = padded(experts), groups = width / kLanes;
  for (std::int64_t t = begin; t < end; ++t) {
    const float* z =
        whole_vectors(logits + t * experts, experts, (tokens - t) * experts, -1, buffer);
    std::int64_t count = 0;
    for (std::int64_t g = 0; g < groups; ++g) {
      const Vec16 x = load(z + g * kLanes);
      const Int16 on = ~(x <= 0.0f);
      const std::uint32_t set = bits_of(on);
      bits[t * groups + g] = static_cast<std::uint16_t>(set);
      count += std::popcount(set);
      store(sums + g * kLanes, load(sums + g * kLanes) + choose(on, x, Vec16{}));
      Int16 number;
      std::memcpy(&number, counts + g * kLanes, sizeof(number));
      number -= on;
      std::memcpy(counts + g * kLanes, &number, sizeof(number));
    }
    taken[t + 1] = count;
  }
}

}  // namespace

Route route_relu(const at::Tensor& logits_in) {
  const at::Tensor logits = logits_in.contiguous();
  const std::int64_t tokens = logits.size(0), experts = logits.size(1);
  const std::int64_t groups = padded(experts) / kLanes;
  const float* z = logits.data_ptr<float>();
  RouteBlocks blocks(tokens, experts);
  Route route;
  const auto index = at::TensorOptions().dtype(at::kLong);
  route.token_offsets = at::empty({tokens + 1}, index);
  auto* token_offsets = route.token_offsets.data_ptr<std::int64_t>();
  const auto bits = std::make_unique_for_overwrite<std::uint16_t[]>(tokens * groups);
  blocks.each([&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    thread_local std::vector<float> buffer;
    buffer.resize(static_cast<std::size_t>(blocks.width()));
    mark_rows(z, tokens, begin, end, experts, buffer.data(), bits.get(), token_offsets,
              blocks.counts(block), blocks.sums(block));
  });
  token_offsets[0] = 0;
  for (std::int64_t t = 0; t < tokens; ++t) token_offsets[t + 1] += token_offsets[t];

  route.gate_sums = blocks.total(1);
  route.offsets = blocks.offsets();
  route.expert = expert_of_assignments(route.offsets);
  const std::int64_t count = token_offsets[tokens];
  route.token = at::empty({count}, index);
  route.by_token = at::empty({count}, index);
  route.weight = at::empty({count}, logits.options());
  auto* token = route.token.data_ptr<std::int64_t>();
  auto* by_token = route.by_token.data_ptr<std::int64_t>();
  auto* weight = route.weight.data_ptr<float>();
  blocks.each([&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    std::int32_t* next = blocks.places(block);
    std::int64_t i = token_offsets[begin];
    for (std::int64_t t = begin; t < end; ++t)
      for (std::int64_t g = 0; g < groups; ++g)
        // A bit scan finds the set bits: a branch for each bit would be hard to predict.
        for (std::uint32_t set = bits[t * groups + g]; set != 0; set &= set - 1) {
          const std::int64_t e = g * kLanes + std::countr_zero(set);
          const std::int64_t a = next[e]++;
          token[a] = t;
          weight[a] = z[t * experts + e];
          by_token[i++] = a;
        }
  });
  return route;
}

at::Tensor route_relu_backward(const RouteGradients& grads, const at::Tensor& logits,
                               const Route& route) {
  const at::Tensor dweight = contiguous_if_defined(grads.weight),
                   dsums = contiguous_if_defined(grads.gate_sums);
  const std::int64_t tokens = logits.size(0), experts = logits.size(1);
  at::Tensor out = at::empty(logits.sizes(), logits.options());  // [T, E]
  const float* each = data_or_null(dweight);
  const float* sums = data_or_null(dsums);
  const auto* by_token = route.by_token.data_ptr<std::int64_t>();
  const auto* expert = route.expert.data_ptr<std::int64_t>();
  const auto* token_offsets = route.token_offsets.data_ptr<std::int64_t>();
  float* dlogits = out.data_ptr<float>();
  parallel_ranges(tokens, 1 + 16384 / (experts + 1), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      float* row = dlogits + t * experts;
      std::fill(row, row + experts, 0.0f);
      for (std::int64_t i = token_offsets[t]; i < token_offsets[t + 1]; ++i) {
        const std::int64_t a = by_token[i], e = expert[a];
        row[e] = (each ? each[a] : 0) + (sums ? sums[e] : 0);
      }
    }
  });
  return out;
}

}  // namespace penstock::ops::cpu
