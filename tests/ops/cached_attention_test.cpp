// cached_attention: a sequence read in parts gives the results of causal_attention over the whole
// sequence, in f64 by the reference and in f32 by the fast paths, which are shown to have run.
// Sequences do not affect one another.
#include "penstock/ops/cached_attention.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/ops.h"
#include "tests/ops/finite_difference.h"

namespace penstock::ops::cached_attention_test {
namespace {

struct Case {
  std::int64_t heads, kv_heads, hd;
  bool rotated = true, adjacent = false;
  std::int64_t width() const { return (heads + 2 * kv_heads) * hd; }
};

constexpr std::int64_t kCapacity = 64;

struct Cache {
  Cache(const Case& c, std::int64_t sequences, at::ScalarType type)
      : options(torch::TensorOptions(type)),
        keys(torch::full({sequences, kCapacity, c.kv_heads, c.hd}, 1e9, options)),
        values(keys.clone()) {
    if (c.rotated) rotation = rotation_table(kCapacity, c.hd, 1e4, options);
  }
  torch::TensorOptions options;
  at::Tensor keys, values;  // full of values that must not be read
  std::optional<at::Tensor> rotation;
};

at::Tensor indices(const std::vector<std::int64_t>& values) {
  return torch::tensor(values, torch::kLong);
}

at::Tensor step(const Case& c, Cache& cache, const at::Tensor& qkv,
                const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& lengths) {
  return cached_attention(qkv.to(cache.options), cache.keys, cache.values, indices(rows),
                          indices(lengths), 1 / std::sqrt(static_cast<double>(c.hd)),
                          cache.rotation, c.adjacent);
}

/// The whole sequence, by causal_attention's reference.
at::Tensor whole(const Case& c, const at::Tensor& qkv) {
  const std::optional<at::Tensor> rotation =
      c.rotated ? std::optional(rotation_table(qkv.size(1), c.hd, 1e4, torch::kDouble))
                : std::nullopt;
  return causal_attention(qkv, c.heads, c.kv_heads, 1 / std::sqrt(static_cast<double>(c.hd)),
                          rotation, c.adjacent);
}

const Case kCases[] = {
    {4, 4, 16}, {8, 2, 64}, {6, 1, 10}, {4, 2, 96, false}, {4, 2, 8, true, true}, {3, 3, 5, false}};

TEST(CachedAttention, PromptAndStepsEqualTheWhole) {
  for (const Case& c : kCases)
    for (const auto type : {torch::kDouble, torch::kFloat})
      for (const auto& [prompt, further] : std::vector<std::pair<std::int64_t, std::int64_t>>{
               {1, 1}, {7, 2}, {16, 2}, {17, 9}, {37, 2}, {5, 41}, {9, 17}}) {
        SCOPED_TRACE(concat("H ", c.heads, " G ", c.kv_heads, " hd ", c.hd, " prompt ", prompt,
                            " further ", further));
        torch::manual_seed(prompt);
        const at::Tensor qkv = torch::randn({1, 60, c.width()}, torch::kDouble);
        Cache cache(c, 3, type);
        reset_dispatch_counts();
        std::vector<at::Tensor> parts{step(c, cache, qkv.narrow(1, 0, prompt), {2}, {0})};
        for (std::int64_t t = prompt; t + further <= 60; t += further)
          parts.push_back(step(c, cache, qkv.narrow(1, t, further), {2}, {t}));
        auto counts = dispatch_counts();
        if (type == torch::kFloat) {
          EXPECT_EQ(counts["cached_attention/prompt"], prompt >= 16 ? 1 : 0);
          EXPECT_EQ(counts["cached_attention/block"], further > 16 ? std::ssize(parts) - 1 : 0);
          EXPECT_EQ(counts["cached_attention/reference"], 0);
        } else {
          EXPECT_EQ(counts["cached_attention/reference"], std::ssize(parts));
        }
        const at::Tensor y = torch::cat(parts, 1).to(torch::kDouble);
        EXPECT_LT(testing::relative_error(y, whole(c, qkv).narrow(1, 0, y.size(1))),
                  type == torch::kFloat ? 3e-6 : 1e-13);
      }
}

TEST(CachedAttention, SequencesOfDifferentLengthsLeaveEachOtherAlone) {
  const Case c{8, 2, 32};
  torch::manual_seed(3);
  const at::Tensor qkv = torch::randn({3, 50, c.width()});
  const std::vector<std::int64_t> prompts{9, 30, 21};
  const auto prepared = [&] {
    Cache cache(c, 3, torch::kFloat);
    for (std::int64_t r = 0; r < 3; ++r)
      step(c, cache, qkv[r].narrow(0, 0, prompts[r]).unsqueeze(0), {r}, {0});
    return cache;
  };
  const auto rows_at = [&](const std::vector<std::int64_t>& rows) {
    std::vector<at::Tensor> out;
    for (const std::int64_t r : rows) out.push_back(qkv[r][prompts[r]]);
    return torch::stack(out).unsqueeze(1);
  };
  Cache together = prepared();
  const at::Tensor all = step(c, together, rows_at({2, 0, 1}), {2, 0, 1}, {21, 9, 30});
  for (const auto& [place, r] : std::vector<std::pair<int, std::int64_t>>{{0, 2}, {1, 0}, {2, 1}}) {
    Cache alone = prepared();
    EXPECT_TRUE(step(c, alone, rows_at({r}), {r}, {prompts[r]}).equal(all.narrow(0, place, 1)));
    const at::Tensor exact =
        whole(c, qkv[r].narrow(0, 0, prompts[r] + 1).unsqueeze(0).to(torch::kDouble));
    EXPECT_LT(testing::relative_error(all.narrow(0, place, 1), exact.narrow(1, prompts[r], 1)),
              3e-6);
  }
}

TEST(CachedAttention, SeveralPositionsOfASequenceAreItsOwn) {
  for (const Case& c : kCases) {
    torch::manual_seed(6);
    const at::Tensor qkv = torch::randn({3, 12, c.width()});
    const auto run = [&](const std::vector<std::int64_t>& rows) {
      Cache cache(c, 3, torch::kFloat);
      cache.keys.copy_(torch::sin(torch::arange(cache.keys.numel())).view(cache.keys.sizes()));
      cache.values.copy_(cache.keys.cos());
      std::vector<std::int64_t> lengths;
      for (const std::int64_t row : rows) lengths.push_back(11 + 17 * row);
      return step(c, cache, qkv.index_select(0, indices(rows)), rows, lengths);
    };
    const at::Tensor all = run({2, 0, 1});
    for (const auto& [place, row] : std::vector<std::pair<int, std::int64_t>>{{0, 2}, {1, 0}})
      EXPECT_TRUE(run({row}).equal(all.narrow(0, place, 1)));
  }
}

/// A pass over drafted tokens relies on this.
TEST(CachedAttention, UpToSixteenPositionsHaveTheBitsOfOneByOne) {
  for (const Case& c : kCases)
    for (const std::int64_t fresh : {2, 7, 16}) {
      torch::manual_seed(7);
      const at::Tensor qkv = torch::randn({1, 20 + fresh, c.width()});
      const auto prepared = [&] {
        Cache cache(c, 1, torch::kFloat);
        step(c, cache, qkv.narrow(1, 0, 20), {0}, {0});
        return cache;
      };
      Cache together = prepared(), alone = prepared();
      const at::Tensor all = step(c, together, qkv.narrow(1, 20, fresh), {0}, {20});
      for (std::int64_t t = 0; t < fresh; ++t)
        EXPECT_TRUE(
            step(c, alone, qkv.narrow(1, 20 + t, 1), {0}, {20 + t}).equal(all.narrow(1, t, 1)));
    }
}

TEST(CachedAttention, SameBitsForOneAndTwoThreads) {
  for (const std::int64_t fresh : {1, 5, 20}) {
    const Case c{8, 4, 64};
    torch::manual_seed(4);
    const at::Tensor qkv = torch::randn({2, fresh, c.width()});
    const auto run = [&](int threads) {
      set_threads(threads);
      Cache cache(c, 2, torch::kFloat);
      cache.keys.copy_(
          torch::sin(torch::arange(cache.keys.numel()).to(torch::kFloat)).view(cache.keys.sizes()));
      cache.values.copy_(cache.keys.cos());
      return step(c, cache, qkv, {0, 1}, {kCapacity - fresh, 40});
    };
    const at::Tensor two = run(2);
    EXPECT_TRUE(run(2).equal(two));
    EXPECT_TRUE(run(1).equal(two));
    set_threads(0);
  }
}

TEST(CachedAttention, WhatDoesNotFitIsAnError) {
  const Case c{4, 2, 8};
  Cache cache(c, 2, torch::kFloat);
  const at::Tensor qkv = torch::randn({1, 3, c.width()});
  EXPECT_NO_THROW(step(c, cache, qkv, {1}, {kCapacity - 3}));
  EXPECT_THROW(step(c, cache, qkv, {1}, {kCapacity - 2}), Error);
  EXPECT_THROW(step(c, cache, qkv, {2}, {0}), Error);
  EXPECT_THROW(step(c, cache, qkv, {0}, {-1}), Error);
  EXPECT_THROW(step(c, cache, qkv.expand({2, 3, c.width()}), {1, 1}, {0, 0}), Error);
  EXPECT_THROW(step(c, cache, torch::randn({1, 3, c.width() + 1}), {1}, {0}), Error);
  EXPECT_THROW(cached_attention(qkv.clone().set_requires_grad(true), cache.keys, cache.values,
                                indices({0}), indices({0}), 1.0),
               Error);
}

}  // namespace
}  // namespace penstock::ops::cached_attention_test
