#include "penstock/convert/export/fit_bias.h"

#include <gtest/gtest.h>

#include "penstock/convert/export/export_choice.h"
#include "penstock/convert/export/export_hugging_face.h"
#include "penstock/convert/export/export_model.h"
#include "penstock/convert/export/not_portable.h"
#include "penstock/convert/export/portable_source.h"
#include "penstock/models/files/open_model.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/export/sample_text.h"
#include "tests/convert/small_models.h"

namespace penstock {
namespace {

using namespace testing;

/// A model with a generated router and its bias. All tokens' inputs share a large common component.
std::string biased_model(const TempDirectory& temp) {
  ModelConfig config = small_moe();
  config.router = {.method = "hyperrouter", .k = 2};
  const std::string path = write_random_model(config, temp.path("model"));
  const torch::NoGradGuard no_grad;
  auto tensors = load_tensors(path);
  tensors.at("model.embed_tokens.weight").add_(0.5);
  for (auto& [name, tensor] : tensors)  // per expert 64 weights, then the bias
    if (name.ends_with("network.b2")) tensor.view({4, 65}).select(1, 64).add_(at::arange(4).mul(2));
  save_tensors(real_file_system(), path + "/model.safetensors", tensors);
  return path;
}

TEST(FitBias, TheDirectionIsThatOfLeastSquares) {
  const TempDirectory temp;
  const auto model = load_model(biased_model(temp));
  const at::Tensor windows = at::arange(0, 2048, at::kLong).mul(37).remainder(251).view({32, 64});
  const CommonDirections common = common_directions(*model, windows);
  ASSERT_EQ(common.ones.size(), 2u);
  EXPECT_EQ(common.tokens, 2048);
  std::vector<at::Tensor> inputs(2);
  const torch::NoGradGuard no_grad;
  model->forward({.tokens = windows}, {}, [&](std::int64_t layer, const RoutingResult& result) {
    inputs[static_cast<std::size_t>(layer)] = result.hidden.to(at::kDouble);
  });
  double worst = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor off = inputs[i].matmul(common.ones[i]) - 1;
    // The residual is orthogonal to every input feature, except for the damping.
    const double slope = inputs[i].t().matmul(off).abs().max().item<double>();
    EXPECT_LT(slope, 1e-2) << i;
    worst = std::max(worst, off.square().mean().sqrt().item<double>());
  }
  EXPECT_NEAR(common.residual, worst, 1e-6);
  EXPECT_LT(worst, 0.5);  // with a zero direction it is 1
}

TEST(FitBias, ABiasIsRefusedByItsKeyAndFittedOnRequest) {
  const TempDirectory temp;
  const std::string model = biased_model(temp), text = text_file(temp);
  ExportOptions options{.model = model, .out = temp.path("hf"), .sample = text};
  try {
    export_model(options);
    FAIL() << "the model was exported though the format has no tensor for the bias";
  } catch (const NotPortableError& error) {
    const std::string said = error.what();
    testing::expect_says(said, {"model.router.hypernetwork.bias = false", "options.fit_bias"});
  }
  options.fit_bias = true;
  const Certificate fitted = export_model(options);
  EXPECT_EQ(fitted.verdict, ExportVerdict::fitted);
  ASSERT_FALSE(fitted.notes.empty());
  // Compare with the same file whose router bias is dropped.
  const auto source = open_model_source(model);
  const auto target = choose_export_target(source->config(), ExportFormat::kHuggingFace, "");
  const std::vector<at::Tensor> nothing(2, at::zeros({64}, at::kDouble));
  const PortableSource dropped(*source, target, nothing);
  const std::string gate = "model.layers.0.mlp.gate.weight";
  EXPECT_FALSE(open_model_source(options.out)->tensor(gate).equal(dropped.tensor(gate)));
  const auto agreement_of = [&](const at::Tensor& first, const at::Tensor& second) {
    auto tensors = load_tensors(options.out);
    const auto name = [&](const std::string& ours) {
      return hugging_face_name(*target.architecture, ours);
    };
    tensors[name(gate)] = first;
    tensors[name("model.layers.1.mlp.gate.weight")] = second;
    save_tensors(real_file_system(), options.out + "/model.safetensors", tensors,
                 {{"format", "pt"}});
    const at::Tensor tokens = some_tokens().remainder(94).add(33);  // tokens that occur in the text
    return compare(observe(*load_model(model), tokens), observe(*load_model(options.out), tokens))
        .same_experts;
  };
  const auto written = open_model_source(options.out);
  const double with = agreement_of(written->tensor(gate).clone(),
                                   written->tensor("model.layers.1.mlp.gate.weight").clone());
  const double without =
      agreement_of(dropped.tensor(gate), dropped.tensor("model.layers.1.mlp.gate.weight"));
  EXPECT_GT(with, 0.8);
  EXPECT_GT(with, without);
}

TEST(FitBias, AsksForTextAndForABias) {
  const TempDirectory temp;
  ExportOptions options{.model = biased_model(temp), .out = temp.path("hf"), .fit_bias = true};
  const auto refused = [&] {
    return testing::error_or("exported", [&] { export_model(options); });
  };
  testing::expect_says(refused(), {"give the text"});
  options.sample = text_file(temp);
  options.model = temp.path("plain");
  write_random_model(small_moe(), options.model);
  testing::expect_says(refused(), {"add no bias"});
}

}  // namespace
}  // namespace penstock
