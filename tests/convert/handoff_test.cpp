// Hand-off of a ReLU-routed model: the fit of the gates against sums computed token by token, the
// written model, its export, and refusals.
#include "penstock/convert/handoff.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "penstock/base/random.h"
#include "penstock/convert/export/export_model.h"
#include "penstock/convert/sample_windows.h"
#include "penstock/io/config_json.h"
#include "penstock/models/files/open_model.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/convert/small_models.h"

namespace penstock {
namespace {

using testing::small_dense;
using testing::small_moe;
using testing::TempDirectory;
using testing::write_random_model;

constexpr std::int64_t kTokens = 40, kExperts = 5, kWidth = 3;

/// Σ_t ‖y − α ŷ‖² / Σ_t ‖y‖² for the β `scale` and the best α, by plain loops.
double error_at(double scale, const at::Tensor& z, const at::Tensor& outputs, std::int64_t k,
                GateForm form, double* best_output = nullptr) {
  const auto logit = z.accessor<double, 2>();
  const auto out = outputs.accessor<double, 3>();
  double yy = 0, yh = 0, hh = 0;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    std::vector<double> gates(kExperts);
    double all = 0, kept = 0;
    for (std::int64_t e = 0; e < kExperts; ++e) {
      std::int64_t above = 0;
      for (std::int64_t f = 0; f < kExperts; ++f) above += logit[t][f] > logit[t][e];
      const double power = std::exp(scale * logit[t][e]);
      all += power;
      if (above >= k) continue;
      kept += power;
      gates[static_cast<std::size_t>(e)] = power;
    }
    for (double& gate : gates) gate /= form == GateForm::softmax_over_all ? all : kept;
    for (std::int64_t i = 0; i < kWidth; ++i) {
      double y = 0, h = 0;
      for (std::int64_t e = 0; e < kExperts; ++e) {
        y += std::max(0.0, logit[t][e]) * out[e][t][i];
        h += gates[static_cast<std::size_t>(e)] * out[e][t][i];
      }
      yy += y * y, yh += y * h, hh += h * h;
    }
  }
  if (best_output) *best_output = yh / hh;
  return 1 - yh * yh / (hh * yy);
}

TEST(GateFit, IsTheBestOfTheErrorsThatPlainSumsGive) {
  const at::Tensor z = at::empty({kTokens, kExperts}, at::kDouble);
  const at::Tensor outputs = at::empty({kExperts, kTokens, kWidth}, at::kDouble);
  auto* logit = z.data_ptr<double>();
  for (std::int64_t i = 0; i < z.numel(); ++i) logit[i] = 0.7 * std::sin(1.3 * i + 0.01 * i * i);
  auto* out = outputs.data_ptr<double>();
  for (std::int64_t i = 0; i < outputs.numel(); ++i) out[i] = std::sin(0.9 * i) + 0.3;
  for (const GateForm form : {GateForm::softmax_over_kept, GateForm::softmax_over_all})
    for (const std::int64_t k : {1, 2, 5}) {
      const GateFit fit = fit_gates(z, output_products(outputs), k, form);
      double output = 0;
      EXPECT_NEAR(fit.error, error_at(fit.scale, z, outputs, k, form, &output), 1e-9);
      EXPECT_NEAR(fit.output, output, 1e-9 * output);
      double least = 1;
      for (double scale = 0.02; scale < 100; scale *= 1.01)
        if (error_at(scale, z, outputs, k, form, &output); output > 0)
          least = std::min(least, error_at(scale, z, outputs, k, form));
      EXPECT_LT(fit.error, least + 1e-3) << k;
    }
}

TEST(GateFit, IsExactWhereOneExpertHasTheSameGateEverywhere) {
  const at::Tensor z = at::full({6, 3}, -1.0, at::kDouble);
  for (std::int64_t t = 0; t < 6; ++t) z[t][t % 3] = 0.25;
  const at::Tensor outputs = at::arange(1, 3 * 6 * 2 + 1, at::kDouble).view({3, 6, 2});
  const GateFit fit = fit_gates(z, output_products(outputs), 1, GateForm::softmax_over_kept);
  EXPECT_NEAR(fit.error, 0, 1e-12);
  EXPECT_NEAR(fit.output, 0.25, 1e-12);
  EXPECT_EQ(
      fit_gates(at::full({6, 3}, -1.0), output_products(outputs), 1, GateForm::softmax_over_all)
          .output,
      0);  // no token has an expert, so the output is 0
}

class Handoff : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream text(path("text"));
    const char* const words[] = {"weir ", "gate ", "flow ", "turbine ", "head race ", "spill.\n"};
    for (std::uint64_t i = 0; i < 3000; ++i) text << words[random_below(random_bits(1, 2, i), 6)];
  }
  static ModelConfig relu() {
    ModelConfig config = small_dense();
    config.moe.experts = 4;
    config.router.method = "remoe";
    config.router.k = 2;
    return config;
  }
  HandoffReport handed(const ModelConfig& config, HandoffOptions options = {}) {
    options.model = path("parent");
    write_random_model(config, options.model);
    options.calibration = path("text");
    options.calibration_tokens = 1024;
    return hand_off(options, real_file_system(), path("handed"));
  }
  void refused(const ModelConfig& config, const char* part, const HandoffOptions& options = {}) {
    testing::expect_error([&] { handed(config, options); }, {part});
    EXPECT_FALSE(std::filesystem::exists(path("handed")));
  }
  std::string path(const std::string& name) const { return directory_.path(name); }

  TempDirectory directory_;
};

TEST_F(Handoff, KeepsAllWeightsButForTwoFactorsOfEachLayer) {
  const HandoffReport report = handed(relu(), {.gates = HandoffGates::all});
  const auto before = open_model_source(path("parent")), after = open_model_source(path("handed"));
  EXPECT_EQ(resolve(after->config().router).traits.gates, GateForm::softmax_over_all);
  EXPECT_EQ(after->config().active_experts(), 2);
  ASSERT_EQ(report.layers.size(), 2u);
  for (const std::string& name : after->names()) {
    if (name.starts_with("penstock.")) continue;
    const GateFit& fit = report.layers[name.find("layers.1.") != std::string::npos ? 1 : 0];
    const bool last =
        name.find(".mlp.experts.") != std::string::npos && name.ends_with("down_proj.weight");
    const double factor = name.ends_with(".mlp.gate.weight") ? fit.scale : last ? fit.output : 1;
    EXPECT_TRUE(at::allclose(after->tensor(name), before->tensor(name) * factor, 1e-6, 0)) << name;
    EXPECT_NE(fit.scale, 1);
    EXPECT_GT(fit.output, 0);
  }
  const nlohmann::json kept = read_json(path("handed") + "/handoff.json");
  EXPECT_EQ(kept["gates"], "all");
  EXPECT_EQ(kept["loss"], report.loss);
}

TEST_F(Handoff, TakesTheNearerGatesAndMeasuresBothModels) {
  const HandoffReport report = handed(relu());
  EXPECT_LE(mean_error(report.layers), report.other_error);
  EXPECT_GT(report.parent_active, 0);
  EXPECT_EQ(read_json(path("handed") + "/config.json")["num_experts_per_tok"], 2);
  // The losses are measured on every second window.
  const at::Tensor windows =
      sample_windows(path("text"), *open_model_source(path("parent")), {.tokens = 1024});
  for (const char* name : {"parent", "handed"}) {
    double nats = 0, scored = 0;
    for (std::int64_t w = 1; w < windows.size(0); w += 2) {
      const at::Tensor logits = testing::logits_of(path(name), windows[w].unsqueeze(0));
      const at::Tensor p =
          logits.view({windows.size(1), -1}).to(at::kDouble).log_softmax(1).slice(0, 0, -1);
      nats -= p.gather(1, windows[w].slice(0, 1).unsqueeze(1)).sum().item<double>();
      scored += static_cast<double>(windows.size(1) - 1);
    }
    EXPECT_NEAR(nats / scored, name[0] == 'p' ? report.parent_loss : report.loss, 1e-5) << name;
    EXPECT_EQ(scored, static_cast<double>(report.measured_tokens));
  }
}

TEST_F(Handoff, ExportsWithACertificate) {
  for (const HandoffGates gates : {HandoffGates::kept, HandoffGates::all}) {
    handed(relu(), {.gates = gates});
    for (const ExportFormat format : {ExportFormat::kGguf, ExportFormat::kHuggingFace}) {
      const bool gguf = format == ExportFormat::kGguf;
      const std::string out = path(gguf ? "out.gguf" : "out");
      const Certificate certificate =
          export_model({.model = path("handed"), .out = out, .format = format});
      EXPECT_EQ(certificate.verdict, ExportVerdict::exact);
      EXPECT_EQ(certificate.architecture, gates == HandoffGates::kept ? "mixtral" : "qwen2moe");
      std::filesystem::remove_all(out);
    }
    std::filesystem::remove_all(path("handed"));
    std::filesystem::remove_all(path("parent"));
  }
}

TEST_F(Handoff, HandsOffGranularAndFoldedRouters) {
  ModelConfig config = relu();
  config.moe.granularity = 3;
  config.router.scorer = "mixture";
  const HandoffReport report = handed(config, {.k = 1});
  EXPECT_EQ(report.config.active_experts(), 3);
  EXPECT_EQ(report.config.total_experts(), 12);
  EXPECT_TRUE(std::isfinite(report.loss));
}

TEST_F(Handoff, RefusesOthers) {
  refused(small_moe(), "nothing to hand off");
  refused(small_dense(), "dense");
  ModelConfig biased = relu();
  biased.router.parts["linear"].set("bias", true);
  refused(biased, "needs a bias");
  refused(relu(), "options.k 5", {.k = 5});
  std::ofstream(path("text")) << "short";
  refused(relu(), "too little");
}

}  // namespace
}  // namespace penstock
