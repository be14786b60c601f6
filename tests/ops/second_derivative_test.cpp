// Second derivatives of every operator are refused; first derivatives with a graph are the same as
// without one.
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "penstock/ops/ops.h"
#include "tests/ops/expert_ffn_case.h"
#include "tests/ops/fast_path.h"

namespace penstock::second_derivative_test {
namespace {

using namespace penstock::testing;

struct Operator {
  std::string name;
  TensorFunction function;
  std::vector<at::Tensor> inputs;  ///< the first one gets a gradient
};

at::Tensor experts_of(const at::Tensor& hidden) {
  const auto plan = make_test_plan(3, 2, [](std::int64_t e, std::int64_t t) { return e != t; });
  const auto c = ops::expert_ffn_test::make_case(plan, 3, 2, 4, 3);
  const auto type = hidden.scalar_type();
  return ops::expert_ffn(hidden, c.weight.to(type), c.plan.token, c.plan.offsets, c.plan.by_token,
                         c.plan.token_offsets, c.w_in.to(type), c.w_out.to(type), {});
}

std::vector<Operator> operators() {
  using Inputs = std::vector<at::Tensor>;
  const at::Tensor ids = torch::tensor({2, 0, 1}, at::kLong);
  return {
      {"linear",
       [](const Inputs& in) { return ops::linear(in[0], in[1]); },
       {normal({3, 4}), normal({5, 4})}},
      {"rms_norm",
       [](const Inputs& in) { return ops::rms_norm(in[0], in[1], 1e-5); },
       {normal({3, 4}), normal({4})}},
      {"add_rms_norm",
       [](const Inputs& in) { return std::get<1>(ops::add_rms_norm(in[0], in[1], in[2], 1e-5)); },
       {normal({3, 4}), normal({3, 4}), normal({4})}},
      {"causal_attention",
       [](const Inputs& in) { return ops::causal_attention(in[0], 2, 1, 0.5); },
       {normal({1, 3, 16})}},
      {"relative_attention",
       [](const Inputs& in) {
         return ops::relative_attention(in[0], in[1], in[2], in[3], in[4], 0.5);
       },
       {normal({1, 3, 8}), normal({1, 3, 16}), normal({3, 8}), normal({2, 4}), normal({2, 4})}},
      {"dropout", [](const Inputs& in) { return ops::dropout(in[0], 0.5, 3); }, {normal({4, 8})}},
      {"swiglu", [](const Inputs& in) { return ops::swiglu(in[0]); }, {normal({3, 8})}},
      {"linear_cross_entropy",
       [ids](const Inputs& in) { return ops::linear_cross_entropy(in[0], in[1], ids); },
       {normal({3, 4}), normal({5, 4})}},
      {"route_topk",
       [](const Inputs& in) { return ops::route_topk(in[0], 2, false).weight; },
       {normal({3, 4})}},
      {"route_relu",
       [](const Inputs& in) { return ops::route_relu(in[0]).weight; },
       {normal({3, 4})}},
      {"embedding",
       [ids](const Inputs& in) { return ops::embedding(in[0], ids); },
       {normal({3, 4})}},
      {"expert_ffn", [](const Inputs& in) { return experts_of(in[0]); }, {normal({3, 4})}},
  };
}

/// The sum of the squares of the operator's outputs, so that the gradient that goes into its
/// backward pass depends on its input too.
at::Tensor total(const Operator& op, const at::Tensor& first) {
  std::vector<at::Tensor> in = op.inputs;
  for (at::Tensor& input : in)
    if (input.is_floating_point()) input = input.to(first.scalar_type());
  in[0] = first;
  return op.function(in).square().sum();
}

at::Tensor gradient(const at::Tensor& y, const at::Tensor& x, bool create_graph) {
  return torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/c10::nullopt, create_graph)[0];
}

TEST(SecondDerivative, OfEveryOperatorIsRefused) {
  for (const Operator& op : operators())
    for (const auto type : {at::kDouble, at::kFloat}) {
      const at::Tensor x = op.inputs[0].to(type).clone().set_requires_grad(true);
      const at::Tensor alone = gradient(total(op, x), x, false);
      const at::Tensor with_graph = gradient(total(op, x), x, true);
      EXPECT_TRUE(alone.equal(with_graph)) << op.name;
      EXPECT_FALSE(alone.requires_grad()) << op.name;
      try {
        gradient(with_graph.square().sum(), x, false);
        ADD_FAILURE() << op.name << " in " << type << ": no error";
      } catch (const std::runtime_error& error) {
        EXPECT_NE(std::string(error.what()).find("[" + op.name + "] has no second derivative"),
                  std::string::npos)
            << error.what();
      }
    }
}

// The incoming gradient is a constant here: the missing derivative passes by way of the operator's
// own operands alone.
TEST(SecondDerivative, IsRefusedForAConstantGradientToo) {
  const at::Tensor x = normal({3, 8}).set_requires_grad(true);
  const at::Tensor first = gradient(ops::swiglu(x).sum(), x, true);
  EXPECT_THROW(gradient(first.square().sum(), x, false), std::runtime_error);
}

TEST(SecondDerivative, OfOtherPartsOfAModelIsThere) {
  const at::Tensor x = normal({3, 8}).set_requires_grad(true);
  const at::Tensor apart = normal({2}).set_requires_grad(true);
  const at::Tensor loss = ops::swiglu(x).sum() + apart.pow(3).sum();
  const at::Tensor first = gradient(loss, apart, true);
  EXPECT_TRUE(gradient(first.sum(), apart, false).allclose(6 * apart.detach()));
}

}  // namespace
}  // namespace penstock::second_derivative_test
