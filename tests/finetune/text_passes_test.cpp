// The gradient of a fine-tuning step. A pass holds texts of one length and counts by its texts.
#include "penstock/finetune/text_passes.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "penstock/base/random.h"
#include "penstock/finetune/score.h"
#include "penstock/models/make_model.h"
#include "tests/finetune/small_task.h"

namespace penstock {
namespace {

constexpr std::uint64_t kDrawSeed = 4;

class TextPassesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ModelConfig config = testing::small_body(ModelKind::decoder, "vanilla");
    config.router.parts["load-balance"].set("coefficient", 2.0);
    torch::manual_seed(3);
    classifier_ = std::make_shared<Classifier>(
        make_model(config, 1), std::make_shared<ClassifierHead>(32, 2, 0.1, 0.5, 1));
    classifier_->to(torch::kDouble);
    classifier_->train();
    // Three texts of 4 tokens, one of 5, one of 7.
    for (const std::size_t length : {4U, 7U, 4U, 5U, 4U}) {
      auto& text = texts_.texts.emplace_back();
      for (std::size_t i = 0; i < length; ++i)
        text.push_back(static_cast<std::int64_t>(17 * texts_.texts.size() + 5 * i) % 256);
      texts_.labels.push_back(static_cast<std::int64_t>(length % 2));
    }
    config_ = read_finetune_config({});
    config_.batch = 5;
  }
  std::map<std::string, at::Tensor> gradients() {
    std::map<std::string, at::Tensor> out;
    for (auto& item : classifier_->named_parameters()) {
      if (item.value().grad().defined()) out[item.key()] = item.value().grad().clone();
      item.value().mutable_grad() = at::Tensor();
    }
    return out;
  }
  StepReport step() {
    TextPasses work(*classifier_, texts_, {0, 1, 2, 3, 4}, config_, kDrawSeed);
    EXPECT_EQ(work.parts(), 3U);
    std::vector<ModelMemory> memory;
    return accumulate(work, {.total_steps = 10, .training = true}, kDrawSeed, memory);
  }
  /// mean_texts CE + Σ_passes (its texts / all texts) · auxiliary losses, for one backward pass.
  /// Computes the accuracy and the load too.
  at::Tensor objective_by_hand() {
    const std::vector<TextIndices> passes = {{0, 2, 4}, {3}, {1}};
    at::Tensor out = torch::zeros({}, torch::kDouble);
    accuracy_ = 0;
    load_ = std::vector(2, std::vector<double>(4));
    for (std::size_t p = 0; p < passes.size(); ++p) {
      const double share = static_cast<double>(passes[p].size()) / 5;
      RoutingContext context{.total_steps = 10, .training = true};
      context.generator = at::detail::createCPUGenerator(mix64(kDrawSeed + p));
      const ClassifierOutput found = classifier_->forward(
          {.tokens = stack_texts(texts_, passes[p]),
           .memory_length = 0,
           .dropout_seed = static_cast<std::int64_t>(random_bits(kDrawSeed, 1, p) >> 1)},
          context, [&](std::int64_t layer, const RoutingResult& result) {
            const at::Tensor counts = at::bincount(result.plan.expert, {}, 4);
            for (std::int64_t e = 0; e < 4; ++e)
              load_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(e)] +=
                  share * counts[e].item<double>() / static_cast<double>(result.plan.tokens);
          });
      for (std::size_t row = 0; row < passes[p].size(); ++row) {
        const at::Tensor logits = found.logits[static_cast<std::int64_t>(row)];
        const std::int64_t label = texts_.labels[passes[p][row]];
        out = out - torch::log_softmax(logits, 0)[label] / 5;
        accuracy_ += logits.argmax().item<std::int64_t>() == label ? 0.2 : 0;
      }
      if (config_.auxiliary_losses) out = out + found.auxiliary_loss * share;
    }
    return out;
  }

  std::shared_ptr<Classifier> classifier_;
  EncodedSet texts_;
  FinetuneConfig config_;
  double accuracy_ = 0;
  std::vector<std::vector<double>> load_;  // [L][E]
};

TEST_F(TextPassesTest, EachPassCountsByItsTextsWithItsAuxiliaryLosses) {
  for (const bool auxiliary : {true, false}) {
    config_.auxiliary_losses = auxiliary;
    const StepReport report = step();
    const auto measured = gradients();
    const at::Tensor objective = objective_by_hand();
    objective.backward();
    const auto wanted = gradients();
    ASSERT_EQ(measured.size(), wanted.size());
    for (const auto& [name, gradient] : wanted)
      EXPECT_TRUE(torch::allclose(measured.at(name), gradient, 1e-8, 1e-10)) << name;
    EXPECT_NEAR(report.total_loss, objective.item<double>(), 1e-9);
    EXPECT_EQ(report.texts, 5);
    EXPECT_EQ(report.tokens, 24);
    EXPECT_NEAR(report.accuracy, accuracy_, 1e-12);
    ASSERT_EQ(report.load.size(), load_.size());
    for (std::size_t layer = 0; layer < load_.size(); ++layer)
      for (std::size_t e = 0; e < 4; ++e)
        EXPECT_NEAR(report.load[layer].at(e), load_[layer][e], 1e-12) << layer << e;
    double sum = 0;
    for (const auto& [part, loss] : report.auxiliary_losses) sum += loss;
    EXPECT_GT(sum, 1);  // in balance 2 for each of two layers
    EXPECT_NEAR(report.total_loss, report.loss + (auxiliary ? sum : 0), 1e-9);
  }
}

TEST_F(TextPassesTest, ALossThatIsNotANumberNamesItsLayer) {
  {
    torch::NoGradGuard no_grad;
    for (auto& item : classifier_->named_parameters())
      if (item.key().find("layer_1") != std::string::npos) item.value().fill_(-NAN);
  }
  EXPECT_EQ(step().non_finite, "the loss is not a number, first seen in layer 1");
}

}  // namespace
}  // namespace penstock
