// Evaluation at chosen mean numbers of active experts. A shift of the logits reaches the number;
// the result equals a model with that shift; selectors that do not choose by signs are refused.
#include "penstock/eval/by_active.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/models/make_model.h"
#include "tests/base/error_of.h"
#include "tests/models/tiny_decoder.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

ModelConfig relu_model(const std::string& method, std::vector<std::string> balancers = {}) {
  ModelConfig config = testing::tiny_decoder(method, 16, 256);
  if (!balancers.empty()) config.router.balancers = std::move(balancers);
  return config;
}

std::string refusal_of_active(const ModelConfig& config, const std::vector<double>& values) {
  return testing::error_or("", [&] { check_active_values(config, values); });
}

class ByActive : public testing::SmallCorpusTest<> {
 protected:
  static EvaluateOptions options() {
    return {.sequence_length = 16, .batch_sequences = 4, .max_tokens = 500};
  }
};

TEST_F(ByActive, ReachesEachMeanNumberOfExperts) {
  const auto model = make_model(relu_model("remoe"), 1);
  const std::vector<double> values = {0.25, 1, 2.5, 4};
  const auto points = evaluate_by_active(*model, *corpus_, options(), values);
  ASSERT_EQ(points.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    SCOPED_TRACE(values[i]);
    EXPECT_EQ(points[i].wanted, values[i]);
    EXPECT_NEAR(points[i].reached / values[i], 1, 0.02);  // one token is 0.1 to 0.8 % of the number
    EXPECT_DOUBLE_EQ(points[i].figures.flops_per_token,
                     forward_flops_per_token(model->config(), options(), points[i].reached));
    if (i > 0) {
      EXPECT_GT(points[i].shift, points[i - 1].shift);
    }
    const auto json = to_json(points[i]);
    EXPECT_EQ(json.at("active_experts"), values[i]);
    EXPECT_FALSE(json.contains("k"));
    EXPECT_EQ(json.at("loss"), points[i].figures.loss);
  }
}

/// The shift equals a balancer's bias on all logits. The model is unchanged afterwards.
TEST_F(ByActive, IsTheModelWithThatShift) {
  const auto model = make_model(relu_model("remoe", {"threshold"}), 1);
  const double own = evaluate(*model, *corpus_, options()).total.nats;
  const std::vector<double> values = {2};
  const auto points = evaluate_by_active(*model, *corpus_, options(), values);
  EXPECT_EQ(evaluate(*model, *corpus_, options()).total.nats, own);
  EXPECT_NE(points[0].shift, 0);
  const torch::NoGradGuard no_grad;
  model->balancers().at(0)->named_buffers()["bias"].add_(points[0].shift);
  EXPECT_NEAR(evaluate(*model, *corpus_, options()).total.loss(), points[0].figures.loss, 1e-5);
}

TEST_F(ByActive, RefusesByTraitAndByNumber) {
  EXPECT_EQ(refusal_of_active(relu_model("remoe"), {0.5, 4}), "");
  testing::expect_says(refusal_of_active(relu_model("topk"), {1}),
                       {"selector 'topk' does not switch experts on"});
  testing::expect_says(refusal_of_active(relu_model("lory"), {1}), {"selector 'lory'"});
  testing::expect_says(refusal_of_active(relu_model("dense"), {1}), {"dense"});
  testing::expect_says(refusal_of_active(relu_model("remoe"), {1, 4.5}),
                       {"4.5 is not above 0 and at most 4"});
}

TEST_F(ByActive, ReadsPositiveNumbers) {
  EXPECT_EQ(parse_active_values("0.5,1,2"), (std::vector<double>{0.5, 1, 2}));
  for (const char* text : {"", "0", "-1", "1,", "1,,2", "one", "1 2", "inf", "nan", "1,1"})
    EXPECT_THROW(parse_active_values(text), Error) << text;
}

}  // namespace
}  // namespace penstock
