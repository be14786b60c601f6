// Every operator on every row of device × dtype against the f64 reference on the CPU: the value and
// all gradients. Another device or type is one line of kRows. Where products are in bf16, the error
// of a result of products must be neither larger nor much smaller than its roundings make it.
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/types.h>

#include "penstock/base/fields.h"
#include "penstock/ops/cached_attention.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/ops/machine/product_unit.h"
#include "penstock/ops/ops.h"
#include "tests/ops/expert_plan_fixture.h"
#include "tests/ops/fast_path.h"

namespace penstock::testing::device_rows_test {
namespace {

struct Row {
  const char* name;
  at::DeviceType device;
  at::ScalarType dtype;
  double tolerance;  ///< relative to a result's largest element; without bf16 roundings
  ops::ProductPrecision products = ops::ProductPrecision::fp32;
  std::optional<ops::ProductUnit> unit = {};  ///< none: the device's own unit
};

constexpr Row kRows[] = {
    {"cpu_f64", at::kCPU, at::kDouble, 1e-12},
    {"cpu_f32", at::kCPU, at::kFloat, 2e-5},
    {"cuda_f64", at::kCUDA, at::kDouble, 1e-11},
    {"cuda_f32", at::kCUDA, at::kFloat, 2e-5},
    {"cpu_avx512_bf16", at::kCPU, at::kFloat, 2e-5, ops::ProductPrecision::bf16,
     ops::ProductUnit::avx512},
    {"cpu_amx_bf16", at::kCPU, at::kFloat, 2e-5, ops::ProductPrecision::bf16,
     ops::ProductUnit::amx},
    {"cpu_emulated_bf16", at::kCPU, at::kFloat, 2e-5, ops::ProductPrecision::bf16,
     ops::ProductUnit::emulated_avx512},
    {"cuda_bf16", at::kCUDA, at::kFloat, 2e-5, ops::ProductPrecision::bf16},
};

struct Operator {
  const char* name;
  TensorFunction run;
  std::vector<at::Tensor> (*inputs)();  ///< f64 and indices, on the CPU
  /// For the value and then each gradient: the number of products of two bf16-rounded operands that
  /// the result has gone through, one after the other. A result that is left out has none.
  std::vector<int> products = {};
};

at::Tensor sum_of(const ops::Route& route) { return route.weight; }

TestPlan plan() {
  return make_test_plan(9, 4, [](std::int64_t e, std::int64_t t) { return (e + t) % 3 == 0; });
}

/// `value` of an operator without a gradient, as a function of x. The inputs' gradients are 0.
at::Tensor constant(const at::Tensor& value, const std::vector<at::Tensor>& x) {
  return value + 0 * x[0].sum();
}

std::vector<at::Tensor> detached(const std::vector<at::Tensor>& x) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& each : x) out.push_back(each.detach().clone());
  return out;
}

const std::vector<Operator>& operators() {
  static const std::vector<Operator> list = {
      {"linear",
       [](const auto& x) { return ops::linear(x[0], x[1], x[2]); },
       [] {
         return std::vector{normal({70, 24}), normal({32, 24}), normal({32})};
       },
       {1, 1, 1}},
      {"rms_norm", [](const auto& x) { return ops::rms_norm(x[0], x[1], 1e-5); },
       [] {
         return std::vector{normal({9, 24}), normal({24})};
       }},
      {"add_rms_norm",
       [](const auto& x) {
         const auto [h, n] = ops::add_rms_norm(x[0], x[1], x[2], 1e-5);
         return h + n;
       },
       [] {
         return std::vector{normal({9, 24}), normal({9, 24}), normal({24})};
       }},
      {"causal_attention",
       [](const auto& x) {
         return ops::causal_attention(x[0], 4, 2, 0.3,
                                      ops::rotation_table(11, 8, 1e4, x[0].options()));
       },
       [] {
         return std::vector{normal({2, 11, 64})};
       },
       {2, 3}},
      {"relative_attention",
       [](const auto& x) { return ops::relative_attention(x[0], x[1], x[2], x[3], x[4], 0.3); },
       [] {
         return std::vector{normal({2, 5, 16}), normal({2, 8, 32}), normal({8, 16}), normal({2, 8}),
                            normal({2, 8})};
       },
       {2, 3, 3, 3, 3, 3}},
      {"dropout", [](const auto& x) { return ops::dropout(x[0], 0.3, 5); },
       [] {
         return std::vector{normal({9, 24})};
       }},
      {"swiglu", [](const auto& x) { return ops::swiglu(x[0]); },
       [] {
         return std::vector{normal({9, 24})};
       }},
      {"linear_cross_entropy",
       [](const auto& x) { return ops::linear_cross_entropy(x[0], x[1], x[2]); },
       [] {
         return std::vector{normal({30, 16}), normal({40, 16}), torch::arange(30)};
       },
       {1, 2, 2}},
      {"linear_cross_entropy_rows",
       [](const auto& x) {
         const auto in = detached(x);
         return constant(ops::linear_cross_entropy_rows(in[0], in[1], in[2]), x);
       },
       [] {
         return std::vector{normal({30, 16}), normal({40, 16}), torch::arange(30)};
       },
       {1}},
      {"cached_attention",
       [](const auto& x) {
         const auto in = detached(x);  // rows and lengths of the sequences stay on the CPU
         const at::Tensor y =
             ops::cached_attention(in[0], in[1], in[2], in[3].cpu(), in[4].cpu(), 0.3,
                                   ops::rotation_table(20, 8, 1e4, in[0].options()));
         return constant(at::cat({y.flatten(), in[1].flatten(), in[2].flatten()}), x);
       },
       [] {
         return std::vector{normal({2, 3, 64}), normal({3, 20, 2, 8}), normal({3, 20, 2, 8}),
                            torch::tensor({2, 0}, at::kLong), torch::tensor({5, 4}, at::kLong)};
       }},
      {"adamw_step",
       [](const auto& x) {
         const auto in = detached(x);
         ops::adamw_step({in[0]}, {in[1]}, {in[2]}, {in[3]}, {0.1},
                         {.lr = 0.01, .grad_scale = 0.5, .step = 3});
         return constant(at::cat({in[0], in[2], in[3]}), x);
       },
       [] {
         return std::vector{normal({9, 24}), normal({9, 24}), normal({9, 24}),
                            normal({9, 24}).square()};
       }},
      {"global_norm",
       [](const auto& x) {
         return constant(at::full({}, ops::global_norm(detached(x)), x[0].options()), x);
       },
       [] {
         return std::vector{normal({9, 24}), normal({300})};
       }},
      {"route_mask",
       [](const auto& x) { return sum_of(ops::route_mask(x[0], x[1].to(at::kBool))); },
       [] {
         return std::vector{normal({9, 8}), torch::arange(72).remainder(3).view({9, 8})};
       }},
      {"route_topk", [](const auto& x) { return sum_of(ops::route_topk(x[0], 2, true)); },
       [] {
         return std::vector{normal({9, 8})};
       }},
      {"route_relu", [](const auto& x) { return sum_of(ops::route_relu(x[0])); },
       [] {
         return std::vector{normal({9, 8})};
       }},
      {"embedding", [](const auto& x) { return ops::embedding(x[0], x[1]); },
       [] {
         return std::vector{normal({12, 8}), torch::arange(20).remainder(12)};
       }},
      {"expert_ffn",
       [](const auto& x) {
         // the plan keeps the offsets on the CPU
         return ops::expert_ffn(x[0], x[1], x[4], x[5].cpu(), x[6], x[7], x[2], x[3]);
       },
       [] {
         const TestPlan p = plan();
         return std::vector{normal({9, 16}),
                            normal({p.assignments()}),
                            normal({4, 40, 16}),
                            normal({4, 16, 20}),
                            p.token,
                            p.offsets,
                            p.by_token,
                            p.token_offsets};
       },
       {2, 3, 2, 3, 2}},
  };
  return list;
}

/// The lower and the upper bound of a result's error, relative to the result's largest element. An
/// operand's rounding to bf16 changes it by at most 2^-8. A result without roundings to bf16 has
/// the error of its sums alone.
std::pair<double, double> error_bounds(const Operator& op, const Row& row, std::size_t result) {
  const bool rounds = row.products == ops::ProductPrecision::bf16 && result < op.products.size();
  if (!rounds) return {0, row.tolerance};
  return {10 * row.tolerance, op.products[result] * 2.0 / 256 + row.tolerance};
}

class DeviceRows : public ::testing::TestWithParam<std::tuple<std::size_t, Row>> {
 protected:
  void TearDown() override { ops::choose_product_unit(std::nullopt); }
};

TEST_P(DeviceRows, AgreesWithTheReference) {
  const auto& [index, row] = GetParam();
  const Operator& op = operators()[index];
  if (row.device == at::kCUDA && !torch::cuda::is_available())
    GTEST_SKIP() << "no CUDA device on this machine";
  if (row.unit && !ops::available(*row.unit))
    GTEST_SKIP() << "this processor has no " << word(*row.unit);
  ops::choose_product_unit(row.unit);
  torch::manual_seed(9);
  const std::vector<at::Tensor> inputs = op.inputs();
  std::vector<at::Tensor> there;
  for (const at::Tensor& input : inputs) there.push_back(input.to(row.device));
  const TensorFunction run = [&](const std::vector<at::Tensor>& x) {
    const ops::PrecisionScope products(row.products);
    return op.run(x);
  };
  const auto found = value_and_gradients(run, there, row.dtype);
  const ops::ReferenceOnly only;
  const auto wanted = value_and_gradients(op.run, inputs, at::kDouble);
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].device().type(), row.device);
    EXPECT_EQ(found[i].scalar_type(), row.dtype);
    const auto [least, most] = error_bounds(op, row, i);
    const double error = error_by_largest(found[i].cpu(), wanted[i]);
    EXPECT_LT(error, most) << "result " << i;
    EXPECT_GE(error, least) << "result " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, DeviceRows,
                         ::testing::Combine(::testing::Range<std::size_t>(0, operators().size()),
                                            ::testing::ValuesIn(kRows)),
                         [](const auto& info) {
                           return std::string(operators()[std::get<0>(info.param)].name) + "_" +
                                  std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace penstock::testing::device_rows_test
