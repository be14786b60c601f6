// The layer of a parameter, by the parameter's name in a model.
#include "penstock/models/module_names.h"

#include <gtest/gtest.h>

#include "tests/models/tiny_decoder.h"

namespace penstock {
namespace {

TEST(ModuleNames, SayTheLayerThatAloneUsesAParameter) {
  EXPECT_EQ(layer_module(12), "layer_12");
  EXPECT_EQ(only_layer_of("layer_12.norm.weight"), 12);
  EXPECT_EQ(only_layer_of("model.layer_3.mlp.experts.down"), 3);
  for (const char* name : {"embed_tokens", "lm_head", "layer_", "layer_x.weight", "player_3.weight",
                           "layer_3.mlp.router.scorer.weight"})
    EXPECT_EQ(only_layer_of(name), -1) << name;
}

TEST(ModuleNames, SayTheLayerOfATensorInFiles) {
  EXPECT_EQ(layer_stem(12), "model.layers.12.");
  EXPECT_EQ(layer_in_files("model.layers.12.input_layernorm.weight"), 12);
  for (const char* name :
       {"model.norm.weight", "model.layers.", "model.layers.3", "model.layers.x.norm.weight",
        "model.layers.-1.norm.weight", "model.layers.03.norm.weight", "layers.3.norm.weight", ""})
    EXPECT_FALSE(layer_in_files(name)) << name;
}

/// The names that a layer gives its modules, including a hypernetwork that the first layer holds
/// for both.
TEST(ModuleNames, OfAModelsOwnParametersLeaveRoutersOut) {
  for (const char* method : {"topk", "hyperrouter"}) {
    const auto model = testing::in_f64(testing::tiny_decoder(method, 8));
    std::size_t of_routers = 0;
    for (std::int64_t layer = 0; layer < 2; ++layer)
      for (const auto& item :
           model->moe_layers()[static_cast<std::size_t>(layer)]->router().named_parameters()) {
        const std::string suffix = "." + item.key();
        for (const auto& whole : model->named_parameters())
          if (whole.value().is_same(item.value())) {
            EXPECT_TRUE(whole.key().ends_with(suffix)) << whole.key();
            EXPECT_EQ(only_layer_of(whole.key()), -1) << whole.key();
            ++of_routers;
          }
      }
    EXPECT_GT(of_routers, 0U) << method;
    std::size_t in_layers = 0;
    for (const auto& item : model->named_parameters())
      if (const std::int64_t layer = only_layer_of(item.key()); layer >= 0) {
        EXPECT_TRUE(item.key().starts_with(layer_module(layer) + ".")) << item.key();
        ++in_layers;
      }
    EXPECT_GT(in_layers, 10U) << method;
  }
}

}  // namespace
}  // namespace penstock
