// The load-balance loss and the z-loss against the constants of formulas.py, which knows only the
// formulas. adaptive_l1_test.cpp tests adaptive L1, ../gating_test.cpp the CV² losses.
#include <gtest/gtest.h>

#include "tests/base/error_of.h"
#include "tests/routers/four_tokens.h"

namespace penstock::testing {
namespace {

TEST(LoadBalance, SwitchFormAtTwoExperts) {
  EXPECT_NEAR(loss_of("load-balance", kTwoOfFour, {{"coefficient", 0.01}}, "topk"),
              0.0103828399020734, 1e-15);
}

TEST(LoadBalance, CountsOverRanksInGlobalScope) {
  // Two ranks have the same tokens, except that only this rank uses the first expert: counts
  // (2,0,1,1) + (0,2,1,1) over 4 + 4 tokens at k = 1.
  const at::Tensor z = matrix({{9, 0, 0, 0}, {9, 0, 0, 0}, {0, 0, 9, 0}, {0, 0, 0, 9}});
  RoutingContext context = kTraining;
  context.reduce = [](std::int64_t, const at::Tensor& mine) {
    return mine + torch::tensor({0, 2, 1, 1, 4}, mine.options());
  };
  const Plan plan = plan_for(*selector("topk", kOneOfFour), z);
  const at::Tensor mean = z.softmax(1).mean(0);
  const auto expected = [&](std::vector<double> fraction) {
    return 4 * 0.5 * mean.dot(torch::tensor(fraction, at::kDouble)).item<double>();
  };
  const auto loss = [&](const char* scope) {
    return balancer("load-balance", kOneOfFour,
                    {{"coefficient", 0.5}, {"scope", std::string(scope)}})
        ->balance({.logits = z}, plan, context)
        .loss.item<double>();
  };
  EXPECT_NEAR(loss("global"), expected({.25, .25, .25, .25}), 1e-12);
  EXPECT_NEAR(loss("micro-batch"), expected({.5, 0, .25, .25}), 1e-12);
}

TEST(LoadBalance, TakesDevicesThatDivideTheExpertsAndOnlyWithTheirScope) {
  const auto refusal = [](const char* scope, std::int64_t devices) -> std::string {
    return error_or("accepted", [&] {
      balancer("load-balance", kOneOfFour, {{"scope", std::string(scope)}, {"devices", devices}});
    });
  };
  EXPECT_EQ(refusal("device", 2), "accepted");
  EXPECT_EQ(refusal("device", 4), "accepted");
  EXPECT_EQ(refusal("device", 3),
            "model.router.load-balance.devices = 3 cannot divide 4 experts into groups of equal "
            "size; set it to the number of devices that are to hold them (parallel.expert)");
  EXPECT_TRUE(refusal("device", 0).starts_with("model.router.load-balance.devices = 0"));
  EXPECT_EQ(refusal("global", 2),
            "model.router.load-balance.devices = 2 is for scope = \"device\"; leave it out");
}

TEST(ZLoss, MeanSquaredLogSumExp) {
  EXPECT_NEAR(loss_of("z-loss", kTwoOfFour, {{"coefficient", 0.001}}, "topk"), 0.00359388254979675,
              1e-15);
}

}  // namespace
}  // namespace penstock::testing
