// What draws from libtorch's default generator, and what must not: a seed stands for a run's
// weights.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/models/census.h"
#include "penstock/models/language_model.h"
#include "penstock/models/tensor_names.h"
#include "penstock/models/tensor_shapes.h"

namespace penstock {
namespace {

at::Tensor state() { return at::detail::getDefaultCPUGenerator().get_state().clone(); }

ModelConfig small(const std::string& architecture, const std::string& method) {
  ModelConfig config;
  config.architecture = architecture;
  config.vocab = 17;
  config.d_model = 8;
  config.layers = 2;
  config.heads = 2;
  config.d_ffn = 12;
  config.context = 8;
  config.moe.experts = 4;
  config.router.method = method;
  return config;
}

TEST(Draws, NothingIsDrawnToKnowAModelOrToReadOne) {
  for (const char* const architecture : {"decoder", "transformer-xl"})
    for (const std::string& method : method_registry().names()) {
      const ModelConfig config = small(architecture, method);
      const at::Tensor before = state();
      config.resolved();
      count_parameters(config);
      tensor_shapes(config);
      nominal_training_flops(config, 2, 8);
      const auto model = make_model(config, InitialWeights::undrawn);
      EXPECT_TRUE(torch::equal(before, state())) << architecture << ' ' << method;
      make_model(config);
      EXPECT_FALSE(torch::equal(before, state())) << architecture << ' ' << method;
    }
}

TEST(Draws, AnUndrawnModelIsOtherwiseTheSame) {
  for (const char* const architecture : {"decoder", "transformer-xl"}) {
    const ModelConfig config = small(architecture, "topk");
    const auto drawn = make_model(config), undrawn = make_model(config, InitialWeights::undrawn);
    load_file_tensors(*undrawn, file_tensors(*drawn), "test");
    const torch::NoGradGuard no_grad;
    const ModelInput input{.tokens = torch::arange(8).view({1, 8})};
    EXPECT_TRUE(torch::equal(drawn->forward(input, {}).hidden, undrawn->forward(input, {}).hidden));
    EXPECT_EQ(undrawn->config().init_std, drawn->config().init_std);
    ASSERT_EQ(undrawn->moe_layers().size(), 2u);
    undrawn->recompute_experts(true);
    for (MoeLayer* const layer : undrawn->moe_layers()) EXPECT_TRUE(layer->experts().recompute);
  }
}

}  // namespace
}  // namespace penstock
