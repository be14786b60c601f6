// Stored experts: with few tokens against the f32 operator bit for bit, with many tokens against
// f64.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/ops/dispatch.h"
#include "penstock/ops/stored_matrix.h"
#include "tests/ops/expert_plan_fixture.h"
#include "tests/ops/finite_difference.h"
#include "tests/ops/stored_rows.h"

namespace penstock::ops::stored_experts_test {
namespace {

using testing::make_test_plan;
using testing::random_rows;
using testing::RandomRows;
using testing::TestPlan;

/// Stored experts and their numbers. Experts with even and odd indices may have different types.
struct Fixture {
  Fixture(std::int64_t experts, std::int64_t inputs, std::int64_t d, std::int64_t f, RowType even,
          RowType odd) {
    std::vector<at::Tensor> w_in, w_out;
    const auto add = [&](std::vector<StoredRows>& to, std::vector<at::Tensor>& values, RowType type,
                         std::int64_t rows, std::int64_t depth) {
      memory.push_back(random_rows(type, rows, depth, memory.size() + 1));
      to.push_back(memory.back().stored);
      values.push_back(memory.back().values);
    };
    memory.reserve(static_cast<std::size_t>(experts * (inputs + 1)));
    stored = {.width = d, .inner = f};
    for (std::int64_t e = 0; e < experts; ++e) {
      const RowType type = e % 2 ? odd : even;
      for (std::int64_t i = 0; i < inputs; ++i) add(stored.in, w_in, type, f, d);
      add(stored.out, w_out, type, d, f);
    }
    in = torch::cat(w_in).view({experts, inputs * f, d});
    out = torch::cat(w_out).view({experts, d, f});
  }
  std::vector<RandomRows> memory;
  StoredExperts stored;
  at::Tensor in, out;  // f64
};

PlanTensors tensors_of(const TestPlan& plan, const at::Tensor& weight) {
  return {weight, plan.token, plan.offsets, plan.by_token, plan.token_offsets};
}

at::Tensor by_numbers(const Fixture& experts, const at::Tensor& hidden, const TestPlan& plan,
                      const at::Tensor& weight, Activation activation, at::ScalarType type) {
  return expert_ffn(hidden.to(type), weight.to(type), plan.token, plan.offsets, plan.by_token,
                    plan.token_offsets, experts.in.to(type), experts.out.to(type),
                    {.activation = activation});
}

bool takes(std::int64_t e, std::int64_t t) { return e != 2 && (e + 3 * t) % 4 < 2; }

TEST(StoredExperts, FewTokensHaveTheBitsOfTheNumbersInF32) {
  torch::manual_seed(1);
  for (const RowType type : testing::kRowTypes)
    for (const auto& [inputs, activation] :
         {std::pair{2, Activation::swiglu}, std::pair{1, Activation::relu}}) {
      const std::int64_t f = row_block(type).numbers == 1 ? 19 : 256;
      const Fixture experts(5, inputs, 256, f, type, RowType::f32);
      for (const std::int64_t tokens : {1, 5, 16}) {
        const TestPlan plan = make_test_plan(tokens, 5, takes);
        const auto hidden = torch::randn({tokens, 256}) * 0.01,
                   weight = torch::rand({plan.assignments()});
        reset_dispatch_counts();
        const auto y = expert_ffn(hidden, tensors_of(plan, weight), experts.stored, activation);
        EXPECT_EQ(dispatch_counts().at("stored_expert_ffn/rows"), 1);
        EXPECT_TRUE(y.equal(by_numbers(experts, hidden, plan, weight, activation, torch::kFloat)))
            << row_type_name(type) << ", " << tokens << " tokens";
      }
    }
}

TEST(StoredExperts, ManyTokensAgreeWithF64AndSeveralGroupsToo) {
  torch::manual_seed(2);
  // The experts of the second case have 3·2^20 numbers each, so the operator expands one expert at
  // a time. The numbers of the two types have about the same size, so each expert's share counts.
  for (const auto& [d, f] : {std::pair{256, 256}, std::pair{1024, 1024}}) {
    const Fixture experts(4, 2, d, f, RowType::q5_k, RowType::q4_k);
    const TestPlan plan = make_test_plan(40, 4, takes);
    const auto hidden = torch::randn({40, d}), weight = torch::rand({plan.assignments()});
    reset_dispatch_counts();
    const auto y = expert_ffn(hidden, tensors_of(plan, weight), experts.stored, Activation::swiglu);
    EXPECT_EQ(dispatch_counts().at("stored_expert_ffn/expand"), 1);
    const auto exact =
        by_numbers(experts, hidden, plan, weight, Activation::swiglu, torch::kDouble);
    EXPECT_LT(testing::error_by_largest(y, exact), 1e-5) << d;
  }
}

TEST(StoredExperts, TokensWithoutAnExpertGetZero) {
  const Fixture experts(3, 2, 256, 256, RowType::q4_k, RowType::q4_k);
  for (const std::int64_t tokens : {3, 20}) {
    const TestPlan none = make_test_plan(tokens, 3, [](auto, auto) { return false; });
    const auto y = expert_ffn(torch::randn({tokens, 256}), tensors_of(none, torch::empty({0})),
                              experts.stored, Activation::swiglu);
    EXPECT_TRUE(y.equal(torch::zeros({tokens, 256})));
  }
}

}  // namespace
}  // namespace penstock::ops::stored_experts_test
