// Expert Choice in training and in evaluation. With thresholds, about as many experts work as in
// training, and later tokens change nothing. As trained, later tokens change logits.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/routers/as_trained.h"
#include "penstock/train/trainer.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

using testing::small_recipe;

class ExpertThresholdTraining : public testing::SmallCorpusTest<> {
 protected:
  /// Experts per token, layer by layer, on the validation split.
  static std::vector<double> active(Trainer& trainer) {
    const RoutingTotals routing = trainer.evaluate(Split::kValidation, 4096).routing;
    std::vector<double> out;
    for (const auto& layer : routing.assignments) {
      double sum = 0;
      for (const double count : layer) sum += count;
      out.push_back(sum / static_cast<double>(routing.tokens));
    }
    return out;
  }
};

TEST_F(ExpertThresholdTraining, AboutAsManyExpertsWorkAsInTraining) {
  Recipe recipe = small_recipe("expert-choice", 8, 32);
  recipe.model.router.k = 2;
  recipe.model.router.parts["expert-threshold"].set("rate", 0.1);
  Trainer trainer(recipe, *corpus_);
  double last = 0;
  while (trainer.step() < 40) last = trainer.advance().report.active_experts;
  EXPECT_EQ(last, 2);
  for (const double experts : active(trainer)) EXPECT_NEAR(experts, 2, 0.2);
  Recipe papers = recipe;
  papers.model.router = as_trained(recipe.model.router);
  Trainer as_trained(papers, *corpus_);
  for (const double experts : active(as_trained))
    EXPECT_NEAR(experts, 2, 1e-3);  // the last pass is not a multiple of E
}

TEST_F(ExpertThresholdTraining, LaterTokensChangeLogitsAsTrainedAlone) {
  for (const bool thresholds : {true, false}) {
    Recipe recipe = small_recipe("expert-choice", 8, 32);
    recipe.model.router.k = 2;
    if (!thresholds) recipe.model.router = as_trained(recipe.model.router);
    Trainer trainer(recipe, *corpus_);
    for (int i = 0; i < 5; ++i) trainer.advance();
    const torch::NoGradGuard no_grad;
    LanguageModel& model = trainer.model();
    at::Tensor tokens = torch::randint(1, model.config().vocab, {2, 32}, at::kLong);
    const auto logits = [&] { return model.logits(model.forward({.tokens = tokens}, {}).hidden); };
    const at::Tensor before = logits().clone();
    tokens[0].slice(0, 16).fill_(0);  // later tokens of the first row
    tokens[1].fill_(0);               // the other row
    EXPECT_EQ(logits().slice(0, 0, 16).equal(before.slice(0, 0, 16)), thresholds);
  }
}

}  // namespace
}  // namespace penstock
