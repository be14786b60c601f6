// Balancing in training by a bias on the choice of experts: the loads even out, evaluation uses the
// biases too, and a restored training continues bit for bit.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/train/trainer.h"
#include "tests/train/small_run.h"
#include "tests/train/trainer_state.h"

namespace penstock {
namespace {

using testing::small_recipe;

const char* const kBias = "penstock.balancer_0.bias";

Recipe loss_free(double rate) {
  Recipe recipe = small_recipe("loss-free", 8, 32);
  recipe.model.router.parts["loss-free"].set("rate", rate);
  return recipe;
}

/// The standard deviation of the experts' shares over their mean, averaged over layers.
double variation(const std::vector<std::vector<double>>& load) {
  double sum = 0;
  for (const auto& layer : load) {
    const at::Tensor shares = torch::tensor(layer, at::kDouble);
    sum += (shares.std(/*unbiased=*/false) / shares.mean()).item<double>();
  }
  return sum / static_cast<double>(load.size());
}

class LossFreeTraining : public testing::SmallCorpusTest<> {
 protected:
  /// The mean variation of the loads over the last ten of forty steps.
  double trained(Trainer& trainer) const {
    double sum = 0;
    while (trainer.step() < 40) {
      const StepReport report = trainer.advance().report;
      EXPECT_TRUE(report.auxiliary_losses.empty());
      if (trainer.step() > 30) sum += variation(report.load) / 10;
    }
    return sum;
  }
};

TEST_F(LossFreeTraining, EvensTheLoadsThatARunWithoutItHas) {
  Trainer without(loss_free(0), *corpus_), with(loss_free(0.02), *corpus_);
  const double uneven = trained(without), even = trained(with);
  EXPECT_LT(even, 0.5 * uneven);
  EXPECT_EQ(without.model_tensors().at(kBias).count_nonzero().item<std::int64_t>(), 0);
}

TEST_F(LossFreeTraining, EvaluationChoosesByTheBiasesThatTheModelHas) {
  Trainer trainer(loss_free(0.001), *corpus_);
  const auto shares = [&] {
    const RoutingTotals routing = trainer.evaluate(Split::kValidation, 2048).routing;
    std::vector<double> out;
    for (const auto& layer : routing.assignments)
      out.push_back(layer.at(3) / static_cast<double>(routing.tokens));
    return out;
  };
  for (const double share : shares()) EXPECT_LT(share, 1);
  trainer.model_tensors().at(kBias).select(1, 3).fill_(2);  // larger than any sigmoid
  EXPECT_EQ(shares(), (std::vector<double>{1, 1}));
}

TEST_F(LossFreeTraining, ContinuesBitwiseWithItsBiases) {
  const Recipe recipe = loss_free(0.001);
  Trainer straight(recipe, *corpus_), before(recipe, *corpus_), after(recipe, *corpus_);
  for (int i = 0; i < 6; ++i) straight.advance();
  for (int i = 0; i < 3; ++i) before.advance();
  const testing::TrainerState middle = testing::state_of(before);
  EXPECT_GT(middle.model.at(kBias).count_nonzero().item<std::int64_t>(), 0);
  testing::restore(after, middle);
  for (int i = 0; i < 3; ++i) after.advance();
  const TensorMap wanted = straight.model_tensors();
  testing::expect_equal(after.model_tensors(), wanted);
  EXPECT_FALSE(torch::equal(wanted.at(kBias), middle.model.at(kBias)));
}

}  // namespace
}  // namespace penstock
