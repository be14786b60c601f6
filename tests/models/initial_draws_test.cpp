// Initial weights: what draws them, and that every parameter's values follow from its own name.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "penstock/models/counts/flops.h"
#include "penstock/models/counts/model_tensors.h"
#include "penstock/models/counts/parameter_count.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/language_model.h"
#include "penstock/models/make_model.h"
#include "penstock/routers/methods.h"
#include "tests/models/tiny_decoder.h"

namespace penstock {
namespace {

at::Tensor state() { return at::detail::getDefaultCPUGenerator().get_state().clone(); }

ModelConfig small(ModelKind architecture, const std::string& method) {
  ModelConfig config = testing::tiny_decoder(method, /*context=*/8);
  config.architecture = architecture;
  return config;
}

template <class F>
void for_every_model(const F& f) {
  for (const ModelKind architecture : {ModelKind::decoder, ModelKind::transformer_xl})
    for (const std::string& method : method_registry().names()) {
      SCOPED_TRACE(std::string(word(architecture)) + " " + method);
      f(small(architecture, method));
    }
}

TEST(InitialWeights, NothingComesFromLibtorchsGenerator) {
  for_every_model([](const ModelConfig& config) {
    const at::Tensor before = state();
    config.resolved();
    count_parameters(config.resolved());
    tensor_shapes(config.resolved());
    nominal_training_flops(config.resolved(), 2, 8);
    make_model(config);
    make_model(config, 3);
    EXPECT_TRUE(torch::equal(before, state()));
  });
}

/// Whether x = mean + std · z for some mean and std.
bool is_line_of(const at::Tensor& x, const at::Tensor& z) {
  const at::Tensor a = x.to(at::kDouble).flatten(), b = z.to(at::kDouble).flatten();
  const at::Tensor da = a - a.mean(), db = b - b.mean();
  const double cosine = (da.dot(db) / (da.norm() * db.norm())).item<double>();
  return std::abs(cosine - 1) < 1e-6;
}

// A part of a model on another rank needs only the seed and the parameter's name. The scorers'
// tests cover what a scorer derives from its draws (an orthogonal basis, scaled rows).
TEST(InitialWeights, EveryParameterIsDrawnByItsOwnName) {
  for_every_model([](const ModelConfig& config) {
    const auto model = make_model(config, 3);
    std::size_t random = 0;
    for (const auto& item : model->named_parameters()) {
      const at::Tensor value = item.value().detach();
      if (value.numel() < 2 || value.eq(value.flatten()[0]).all().item<bool>()) continue;
      if (item.key().ends_with("scorer.experts")) continue;
      const at::Tensor draws = torch::empty_like(value);
      InitialDraws(3).normal(item.key(), draws, 1);
      EXPECT_TRUE(is_line_of(value, draws)) << item.key();
      ++random;
    }
    EXPECT_GE(random, 2u + 2 * 4);
  });
}

TEST(InitialWeights, AreFiniteAndFollowTheSeed) {
  for_every_model([](const ModelConfig& config) {
    const auto one = make_model(config, 3), same = make_model(config, 3),
               other = make_model(config, 4);
    const auto a = one->named_parameters(), b = same->named_parameters(),
               c = other->named_parameters();
    bool differs = false;
    for (const auto& item : a) {
      EXPECT_TRUE(item.value().isfinite().all().item<bool>()) << item.key();
      EXPECT_TRUE(item.value().equal(b[item.key()])) << item.key();
      differs = differs || !item.value().equal(c[item.key()]);
    }
    EXPECT_TRUE(differs);
  });
}

TEST(InitialWeights, AModelMadeToBeReadIsOtherwiseTheSame) {
  for (const ModelKind architecture : {ModelKind::decoder, ModelKind::transformer_xl}) {
    const ModelConfig config = small(architecture, "topk");
    const auto drawn = make_model(config, 1), read = make_model(config);
    load_file_tensors(*read, file_tensors(*drawn), "test");
    const torch::NoGradGuard no_grad;
    const ModelInput input{.tokens = torch::arange(8).view({1, 8})};
    EXPECT_TRUE(torch::equal(drawn->forward(input, {}).hidden, read->forward(input, {}).hidden));
  }
}

}  // namespace
}  // namespace penstock
