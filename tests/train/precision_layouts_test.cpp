// Products in bf16 on several ranks, emulated so that every processor runs the tests. The numbers
// are as near to those of one process as in fp32, and bit for bit the same where fp32's are.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/dist/transport.h"
#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/ops/dispatch.h"
#include "penstock/train/initial_model.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/trainer.h"
#include "tests/base/test_names.h"
#include "tests/dist/ranks.h"
#include "tests/train/small_run.h"

namespace penstock::precision_layouts_test {
namespace {

struct Case {
  std::string name;
  dist::Layout layout;
  std::int64_t zero = 0;
  bool recompute = false;
  bool same_bits = false;
  bool layers = false;  // layers are computed again, at least the first
  Moments moments = Moments::fp32;
};

class PrecisionLayouts : public testing::SmallCorpusTest<::testing::TestWithParam<Case>> {
 protected:
  void SetUp() override {
    if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
    ops::set_threads(1);
  }
  void TearDown() override { ops::emulate_bf16(false); }

  Recipe recipe(ops::ProductPrecision precision) const {
    ConfigNode node = testing::small_recipe_node("remoe", 8, 16, "unused");
    node.set("model.moe.shared_width", 16);
    node.set("train.micro_batch", 1);
    node.set("train.gradient_sum", "tree");
    node.set("train.recompute_experts", GetParam().recompute);
    node.set("parallel.zero", GetParam().zero);
    Recipe out = read_recipe(node);
    out.train.precision = precision;
    out.train.optimizer.moments = GetParam().moments;
    out.run.emulate_bf16 = precision == ops::ProductPrecision::bf16;
    if (!GetParam().layers) return out;
    Recipe counted = with_vocabulary(out, *corpus_);
    counted.train.memory_budget = "1";
    const double least = count_training(counted, GetParam().layout).recomputation.least_bytes;
    out.train.memory_budget = concat(std::llround(std::ceil(least)));
    return out;
  }

  /// The model and the moments after four steps, gathered on rank 0.
  static TensorMap history(Trainer& trainer) {
    while (trainer.step() < 4) EXPECT_EQ(trainer.advance().failure, "");
    TensorMap out;
    for (const auto& [name, value] : trainer.model_tensors()) out[name] = value.clone();
    for (const auto& [name, value] : trainer.optimizer_tensors()) out["+" + name] = value.clone();
    return out;
  }
  TensorMap alone(ops::ProductPrecision precision) const {
    Recipe one = recipe(precision);
    one.parallel.zero = 0;
    one.train.memory_budget = "";
    Trainer trainer(one, *corpus_);
    return history(trainer);
  }
  TensorMap on_ranks(ops::ProductPrecision precision) const {
    TensorMap out;
    const dist::Layout& layout = GetParam().layout;
    testing::on_ranks(layout.ranks(), [&](const dist::ProcessGroup& world) {
      Trainer trainer(recipe(precision), *corpus_, dist::make_mesh(world, layout));
      EXPECT_EQ(recomputes_layer(of_layer(trainer.model().recomputed(), 0)), GetParam().layers);
      TensorMap mine = history(trainer);
      if (world.rank() == 0) out = std::move(mine);
    });
    return out;
  }
};

TEST_P(PrecisionLayouts, HaveTheNumbersOfOneProcess) {
  TensorMap by_precision[2];
  for (const auto precision : {ops::ProductPrecision::fp32, ops::ProductPrecision::bf16}) {
    SCOPED_TRACE(words(precision)[static_cast<std::size_t>(precision)]);
    const TensorMap expected = alone(precision), found = on_ranks(precision);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, value] : expected) {
      const at::Tensor difference = (found.at(name) - value).to(torch::kDouble);
      if (GetParam().same_bits) {
        EXPECT_TRUE(found.at(name).equal(value)) << name;
      }
      // Some numbers of a moment in bf16 are rounded to the other neighbour, at most 2^-7 away.
      const double tolerance = value.scalar_type() == at::kBFloat16 ? 3e-3 : 1e-3;
      EXPECT_LE(difference.norm().item<double>(),
                tolerance * value.to(torch::kDouble).norm().item<double>())
          << name;
    }
    by_precision[static_cast<std::size_t>(precision)] = found;
  }
  for (const auto& [name, value] : by_precision[0])
    if (name.ends_with("_proj.weight")) {
      EXPECT_FALSE(value.equal(by_precision[1].at(name))) << name;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, PrecisionLayouts,
    ::testing::Values(Case{"zero3", {.data = 2}, 3, false, true},
                      Case{"zero3_recompute", {.data = 2}, 3, true, true},
                      Case{"expert2", {.data = 2, .expert = 2}},
                      Case{"expert2_zero3_recompute", {.data = 2, .expert = 2}, 3, true},
                      Case{"pipeline2", {.pipeline = 2}},
                      Case{.name = "zero2_moments",
                           .layout = {.data = 2},
                           .zero = 2,
                           .same_bits = true,
                           .moments = Moments::bf16},
                      Case{.name = "tensor2_expert2_moments",
                           .layout = {.tensor = 2, .expert = 2, .whole_experts = true},
                           .moments = Moments::bf16},
                      Case{"pipeline2_recompute", {.pipeline = 2}, 0, true},
                      Case{"zero3_layers", {.data = 2}, 3, false, true, true},
                      Case{"expert2_layers", {.data = 2, .expert = 2}, 0, false, false, true},
                      Case{"tensor2_layers", {.tensor = 2}, 0, false, false, true},
                      Case{"pipeline2_layers", {.pipeline = 2}, 0, false, false, true}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace penstock::precision_layouts_test
