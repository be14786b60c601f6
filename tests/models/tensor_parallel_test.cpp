// Ranks that divide each layer's heads and neurons, with or without the rows between products: the
// loss and every gradient equal those of one process, for every method.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/base/random.h"
#include "penstock/dist/transport.h"
#include "penstock/models/formats/rank_slices.h"
#include "penstock/models/language_model.h"
#include "penstock/routers/methods.h"
#include "tests/base/test_names.h"
#include "tests/dist/ranks.h"
#include "tests/models/tiny_decoder.h"

namespace penstock {
namespace {

struct Pass {
  double loss = 0, auxiliary = 0;
  std::map<std::string, at::Tensor> gradients;
};

Pass pass_of(LanguageModel& model, std::int64_t context) {
  std::vector<std::int64_t> ids;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(3 * context); ++i)
    ids.push_back(static_cast<std::int64_t>(random_below(random_bits(1, 2, i), 12)));
  const at::Tensor tokens = torch::tensor(ids).view({3, context});
  RoutingContext routing{.step = 3, .total_steps = 10, .training = true};
  routing.generator = at::detail::createCPUGenerator(4);
  const ModelOutput out = model.forward({.tokens = tokens}, routing);
  const at::Tensor loss = model.loss(out.hidden, tokens.roll(-1, 1).flatten());
  Pass result{.loss = loss.item<double>()};
  at::Tensor total = loss;
  if (out.auxiliary_loss.defined()) {
    result.auxiliary = out.auxiliary_loss.item<double>();
    total = total + out.auxiliary_loss;
  }
  total.backward();
  for (const auto& item : model.named_parameters())
    result.gradients[item.key()] =
        item.value().grad().defined() ? item.value().grad() : torch::zeros_like(item.value());
  return result;
}

ModelConfig small_config(const std::string& method) {
  ModelConfig out = testing::tiny_decoder(method, /*context=*/8);
  out.heads = 4;
  out.kv_heads = 2;
  out.qk_norm_per_head = true;
  out.qkv_bias = true;
  if (method != "dense") {
    out.moe.shared_width = 8;
    out.moe.shared_gate = true;
    out.moe.dense_layers = 1;
  }
  if (method == "lory") out.router.parts["lory"].set("segment_length", 4);
  return out.resolved();
}

class TensorParallel : public ::testing::TestWithParam<std::string> {};

void expect_the_gradients_of_one_process(const std::string& method, bool divided) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  const ModelConfig config = small_config(method);
  const Pass expected = pass_of(*testing::in_f64(config), 8);
  const dist::Layout layout{.tensor = 2, .sequence = divided};
  const auto in_shares = parameters_in_shares(backbone_tensors(config.resolved()), layout);
  testing::on_ranks(2, [&](const dist::ProcessGroup& world) {
    const dist::Mesh mesh = dist::make_mesh(world, layout);
    const ModelPlace place = place_in(config, mesh);
    const auto model = testing::in_f64(config, place);
    const auto slices = model_slices(config, place.part);
    const Pass found = pass_of(*model, 8);
    EXPECT_NEAR(found.loss, expected.loss, 1e-12);
    EXPECT_NEAR(found.auxiliary, expected.auxiliary, 1e-12);
    ASSERT_EQ(found.gradients.size(), expected.gradients.size());
    std::size_t cut = 0;
    for (const auto& [name, gradient] : found.gradients) {
      const at::Tensor whole = expected.gradients.at(name);
      if (in_shares.contains(name)) world.all_reduce(gradient, dist::Reduction::sum);
      cut += !slices.at(name).whole();
      const double off = (gradient - take(whole, slices.at(name))).abs().max().item<double>();
      EXPECT_LT(off, 1e-11 * (1 + whole.abs().max().item<double>())) << name;
    }
    EXPECT_GT(cut, 6U);
  });
}

TEST_P(TensorParallel, HasTheGradientsOfOneProcess) {
  expect_the_gradients_of_one_process(GetParam(), false);
}

TEST_P(TensorParallel, HasTheGradientsOfOneProcessWithDividedRows) {
  expect_the_gradients_of_one_process(GetParam(), true);
}

/// Stages pass on the rows that each rank holds, and a tap sees all rows.
TEST(TensorParallelRows, AreHeldByOneRankEach) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  ModelConfig config = small_config("topk");
  config.heads = config.kv_heads = 3;
  config.d_model = 18;
  config.head_dim = 6;
  config.moe.shared_width = 9;
  config = config.resolved();
  const auto whole = testing::in_f64(config);
  // Each of 3 ranks holds 10 rows of 5 sequences of 6 tokens.
  const at::Tensor tokens = at::arange(30).remainder(12).view({5, 6});
  std::vector<at::Tensor> expected;
  const HiddenTap keep = [&](std::int64_t, const at::Tensor& hidden) {
    expected.push_back(hidden.detach());
  };
  const ModelOutput out = whole->forward({.tokens = tokens}, {}, {}, keep);
  testing::on_ranks(3, [&](const dist::ProcessGroup& world) {
    const dist::Mesh mesh = dist::make_mesh(world, {.tensor = 3, .sequence = true});
    const auto model = testing::in_f64(config, place_in(config, mesh));
    std::vector<at::Tensor> seen;
    const ModelOutput mine = model->forward(
        {.tokens = tokens}, {}, {},
        [&](std::int64_t, const at::Tensor& hidden) { seen.push_back(hidden.detach()); });
    ASSERT_EQ(mine.hidden.sizes(), at::IntArrayRef({10, 18}));
    const at::Tensor rows = out.hidden.narrow(0, 10 * world.rank(), 10);
    EXPECT_LT((mine.hidden - rows).abs().max().item<double>(), 1e-12);
    ASSERT_EQ(seen.size(), expected.size());
    for (std::size_t i = 0; i < seen.size(); ++i)
      EXPECT_LT((seen[i] - expected[i]).abs().max().item<double>(), 1e-12);
  });
}

INSTANTIATE_TEST_SUITE_P(Methods, TensorParallel, ::testing::ValuesIn(method_registry().names()),
                         testing::test_name);

}  // namespace
}  // namespace penstock
