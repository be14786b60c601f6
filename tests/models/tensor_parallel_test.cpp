// Ranks that share each layer's heads and neurons: loss and every gradient are those of one
// process, for every method.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/base/random.h"
#include "penstock/dist/transport.h"
#include "penstock/models/language_model.h"
#include "penstock/models/tensor_slices.h"
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

ModelConfig config_of(const std::string& method) {
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
  if (method == "lory") out.router.parts["lory"].set("segment_length", ConfigNode(std::int64_t{4}));
  return out.resolved();
}

class TensorParallel : public ::testing::TestWithParam<std::string> {};

TEST_P(TensorParallel, HasTheGradientsOfOneProcess) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  const ModelConfig config = config_of(GetParam());
  const Pass expected = pass_of(*testing::in_f64(config), 8);
  testing::on_ranks(2, [&](const dist::ProcessGroup& world) {
    const dist::Mesh mesh = dist::make_mesh(world, {.tensor = 2});
    const ModelPlace place = place_in(config, mesh);
    const auto model = testing::in_f64(config, place);
    const auto slices = model_slices(config, place.part);
    const Pass found = pass_of(*model, 8);
    EXPECT_NEAR(found.loss, expected.loss, 1e-12);
    EXPECT_NEAR(found.auxiliary, expected.auxiliary, 1e-12);
    ASSERT_EQ(found.gradients.size(), expected.gradients.size());
    std::size_t divided = 0;
    for (const auto& [name, gradient] : found.gradients) {
      const at::Tensor whole = expected.gradients.at(name);
      divided += !slices.at(name).whole();
      const double off = (gradient - take(whole, slices.at(name))).abs().max().item<double>();
      EXPECT_LT(off, 1e-11 * (1 + whole.abs().max().item<double>())) << name;
    }
    EXPECT_GT(divided, 6U);
  });
}

INSTANTIATE_TEST_SUITE_P(Methods, TensorParallel, ::testing::ValuesIn(method_registry().names()),
                         testing::test_name);

}  // namespace
}  // namespace penstock
