// Profiles: FLOPs and bytes against numbers worked out by hand, the own time of nested entries, and
// nothing recorded without a Profile. No test asserts how long anything takes.
#include "penstock/ops/profile/profile.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "penstock/base/error.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/profile/profile_clock.h"
#include "penstock/ops/profile/stock_profile.h"
#include "penstock/ops/stored_matrix.h"

namespace penstock::ops::profile_test {
namespace {

/// The sum of an operator's entries over its implementations.
ProfileEntry of(const Profile& profile, const std::string& op) {
  ProfileEntry sum;
  for (const auto& [name, entry] : profile.operators()) {
    if (name.substr(0, name.find('/')) != op) continue;
    sum.calls += entry.calls;
    sum.seconds += entry.seconds;
    sum.flops += entry.flops;
    sum.bytes += entry.bytes;
    sum.bf16_flops += entry.bf16_flops;
  }
  return sum;
}

at::Tensor leaf(std::vector<std::int64_t> sizes) {
  return torch::randn(sizes).set_requires_grad(true);
}

TEST(Profile, CountsTheProductsOfLinear) {
  const at::Tensor x = leaf({2, 3, 4}), w = leaf({5, 4});
  Profile profile;
  const at::Tensor y = ops::linear(x, w);
  EXPECT_EQ(of(profile, "linear").calls, 1);
  EXPECT_EQ(of(profile, "linear").flops, 2 * 6 * 4 * 5);
  EXPECT_EQ(of(profile, "linear").bytes, 4 * (6 * 4 + 5 * 4 + 6 * 5));
  y.sum().backward();
  EXPECT_EQ(of(profile, "linear.backward").flops, 2 * 2 * 6 * 4 * 5);
  // dy, x and w are read; dx and dw are written.
  EXPECT_EQ(of(profile, "linear.backward").bytes, 4 * (6 * 5 + 2 * 6 * 4 + 2 * 5 * 4));
}

TEST(Profile, CountsTheProductsOfStoredRowsOnce) {
  const at::Tensor w = torch::randn({5, 4});
  const StoredMatrix stored{
      .depth = 4,
      .pieces = {{.rows = 5, .data = reinterpret_cast<const std::byte*>(w.data_ptr<float>())}}};
  for (const std::int64_t rows : {16, 17}) {  // read as they are stored, and expanded
    Profile profile;
    ops::linear(torch::randn({rows, 4}), stored);
    EXPECT_EQ(of(profile, "linear").flops + of(profile, "stored_linear").flops, 2 * rows * 4 * 5);
  }
}

TEST(Profile, TellsProductsInBf16Apart) {
  const at::Tensor x = torch::randn({2, 4}), w = torch::randn({5, 4});
  Profile profile;
  ops::linear(x, w);
  EXPECT_EQ(of(profile, "linear").bf16_flops, 0);
  {
    const PrecisionScope scope(ProductPrecision::bf16);
    ops::linear(x, w);
  }
  EXPECT_EQ(of(profile, "linear").bf16_flops, 2 * 2 * 4 * 5);
  EXPECT_EQ(of(profile, "linear").flops, 2 * 2 * 2 * 4 * 5);
}

TEST(Profile, CountsOnlyTheGradientsThatAreWanted) {
  const at::Tensor x = torch::randn({6, 4}), w = leaf({5, 4});
  Profile profile;
  ops::linear(x, w).sum().backward();
  EXPECT_EQ(of(profile, "linear.backward").flops, 2 * 6 * 4 * 5);
}

TEST(Profile, CountsUnmaskedPairsOfAttention) {
  // One sequence of 3 rows has 1 + 2 + 3 = 6 pairs. Each of two products takes 2·hd = 8 FLOPs a
  // pair and head.
  const at::Tensor qkv = leaf({1, 3, (2 + 2 * 1) * 4});  // two heads, one key/value head
  Profile profile;
  ops::causal_attention(qkv, 2, 1, 0.5).sum().backward();
  EXPECT_EQ(of(profile, "causal_attention").flops, 6 * 2 * 2 * 8);
  EXPECT_EQ(of(profile, "causal_attention.backward").flops, 6 * 2 * 4 * 8);
  // A document border before the last row leaves 1 + 2 + 1 pairs.
  profile.clear();
  const at::Tensor start = torch::tensor({0, 0, 2}, torch::kInt64).view({1, 3});
  ops::causal_attention(qkv, 2, 1, 0.5, std::nullopt, false, start);
  EXPECT_EQ(of(profile, "causal_attention").flops, 4 * 2 * 2 * 8);
}

TEST(Profile, CountsAssignmentsAndUsedExperts) {
  // T=2, d=4, f=3, E=3. Token 0 goes to expert 0, and both tokens go to expert 2, so A = 3.
  const at::Tensor hidden = leaf({2, 4}), weight = leaf({3});
  const auto index = [](std::vector<std::int64_t> values) { return torch::tensor(values); };
  const at::Tensor w_in = leaf({3, 6, 4}), w_out = leaf({3, 4, 3});
  for (const auto precision : {ops::ProductPrecision::fp32, ops::ProductPrecision::bf16}) {
    const ops::PrecisionScope products(precision);
    Profile profile;
    ops::expert_ffn(hidden, weight, index({0, 0, 1}), index({0, 1, 1, 3}), index({0, 1, 2}),
                    index({0, 2, 3}), w_in, w_out)
        .sum()
        .backward();
    const double plan = 4 * 3 + 8 * (3 + 3 + 3), used = 4 * 2 * 36, rows = 4 * 8, kept = 4 * 18;
    const double hidden_rows = precision == ops::ProductPrecision::bf16 ? rows / 2 : rows;
    EXPECT_EQ(of(profile, "expert_ffn").flops, 2 * 3 * 3 * 4 * 3);
    EXPECT_EQ(of(profile, "expert_ffn").bytes, hidden_rows + plan + used + rows + kept);
    EXPECT_EQ(of(profile, "expert_ffn.backward").flops, 2 * 2 * 3 * 3 * 4 * 3);
    EXPECT_EQ(of(profile, "expert_ffn.backward").bytes,
              hidden_rows + plan + used + rows + kept + rows + 4 * 3 + 4 * 3 * 36);
  }
}

TEST(Profile, CountsTheSweepOfAdamWAndTheRowsOfALookup) {
  const at::Tensor w = torch::randn({10}), g = torch::randn({10}), m = torch::zeros({10}),
                   v = torch::zeros({10});
  Profile profile;
  ops::adamw_step({w}, {g}, {m}, {v}, {0.0}, {.lr = 0.1});
  EXPECT_EQ(of(profile, "adamw_step").bytes, 4 * 7 * 10);
  EXPECT_EQ(of(profile, "adamw_step").flops, 0);
  ops::global_norm({w, g});
  EXPECT_EQ(of(profile, "global_norm").bytes, 4 * 2 * 10);
  ops::embedding(torch::randn({1000, 4}), torch::zeros({3}, torch::kInt64));
  EXPECT_EQ(of(profile, "embedding").bytes, 3 * 8 + 2 * 3 * 4 * 4);
}

TEST(Profile, RecordsNothingWithoutOneAndStartsEmpty) {
  const at::Tensor x = torch::randn({4, 6});
  {
    Profile profile;
    ops::swiglu(x);
    EXPECT_TRUE(profiling());
    EXPECT_EQ(profile.operators().size(), 1u);
  }
  EXPECT_FALSE(profiling());
  ops::swiglu(x);
  { const ProfileScope scope("unseen"); }
  Profile profile;
  EXPECT_TRUE(profile.operators().empty());
  EXPECT_TRUE(profile.scopes().empty());
}

TEST(Profile, AScopesTimeIsItsOwn) {
  const at::Tensor x = torch::randn({256, 256}), w = torch::randn({256, 256});
  Profile profile;
  const auto start = std::chrono::steady_clock::now();
  {
    const ProfileScope outer("outer");
    const ProfileScope inner("inner");
    ops::linear(x, w);
  }
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - start;
  const auto scopes = profile.scopes();
  ASSERT_EQ(scopes.size(), 2u);
  // The own times add up to at most the elapsed time. A product counted three times would exceed
  // it.
  const double sum =
      scopes.at("outer").seconds + scopes.at("inner").seconds + of(profile, "linear").seconds;
  EXPECT_LE(sum, whole.count());
  EXPECT_GT(of(profile, "linear").seconds, 0);
}

TEST(StockProfile, NamesWhatRunsOutsideTheOperatorsOnly) {
  const at::Tensor x = leaf({8, 4}), w = leaf({4, 4});
  Profile profile;
  torch::softmax(x, 1);
  EXPECT_TRUE(profile.scopes().empty());
  {
    const StockProfile stock;
    const at::Tensor y = torch::softmax(ops::linear(x, w), 1);
    y.sum().backward();
  }
  const auto scopes = profile.scopes();
  EXPECT_EQ(scopes.at("aten::_softmax").calls, 1);
  EXPECT_EQ(scopes.at("aten::_softmax_backward_data").calls, 1);
  EXPECT_TRUE(scopes.contains("penstock::linear"));
  EXPECT_EQ(scopes.at("LinearFunction").calls, 1);
  // Calls inside an operator belong to the operator's own time: empty() above, mm() in the
  // reference.
  EXPECT_FALSE(scopes.contains("aten::mm"));
  profile.clear();
  const ReferenceOnly only;
  const StockProfile stock;
  ops::linear(x, w);
  EXPECT_FALSE(profile.scopes().contains("aten::mm"));
  EXPECT_FALSE(profile.scopes().contains("aten::addmm"));
  EXPECT_EQ(profile.operators().at("linear/reference").calls, 1);
}

TEST(Profile, AFailingOperatorIsNotRecordedAndLeavesTheClockInOrder) {
  static const Implementations<void(bool)> list(
      "failing", {{"reference", nullptr, [](bool fails) { PENSTOCK_CHECK(!fails, "as asked"); }}});
  Profile profile;
  EXPECT_THROW(list.run(true), Error);
  EXPECT_TRUE(profile.operators().empty());
  list.run(false);
  EXPECT_EQ(profile.operators().at("failing/reference").calls, 1);
}

TEST(ProfileClock, ProcessorTimeStandsStillInASleep) {
  // Worker threads of earlier tests may spin for a while after their last loop, and the process's
  // time includes theirs. So the processor clock must stand still in at least one of several
  // sleeps. A wall clock stands still in none.
  double least = 1;
  for (int attempt = 0; attempt < 50 && least > 0.03; ++attempt) {
    const double wall = profile_seconds();
    double processor = 0;
    {
      const ProcessorTime counted;
      const double before = profile_seconds();
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      processor = profile_seconds() - before;
    }
    EXPECT_GE(profile_seconds() - wall, 0.06);
    least = std::min(least, processor);
  }
  EXPECT_LT(least, 0.03);
}

TEST(Profile, OneAtATime) {
  Profile profile;
  EXPECT_ANY_THROW(Profile());
  EXPECT_TRUE(profiling());
}

}  // namespace
}  // namespace penstock::ops::profile_test
