// The shift of the logits that follows the number of active experts, against the numbers of
// logit_shift.py. threshold_test.cpp and held_sparsity_test.cpp test the balancers that own a
// shift.
#include "penstock/routers/balancers/logit_shift.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/routers/counted.h"

namespace penstock::testing {
namespace {

/// The gain of a unit (a layer or the model), from the balancer's buffer `steering`.
double gain(const std::shared_ptr<Balancer>& part, std::int64_t unit = 0) {
  return buffer(part, "steering")[unit][0].item<double>();
}

/// Numbers of logit_shift.py.
TEST(LogitShift, FollowsTheErrorOfTheLayerWithAGainThatErrorsMove) {
  const auto part = balancer("threshold", kTwoLayers,
                             {{"rate", 0.5}, {"revive", 0.0}, {"by", std::string("layer")}});
  const std::vector<std::int64_t> first{50, 37, 20, 30, 25, 0}, second{20, 15, 30, 100, 30, 25};
  const std::vector<double> shifts{-0.5, -1.06414, -1.218129, -1.777967, -2.277967, -1.442697};
  const std::vector<double> gains{0.5, 0.623038, 0.732622, 0.82049, 1, 0.83527};
  const std::vector<double> others{0.144905, 0.587777, 0.558907, -0.064233, -0.412864, -0.648212};
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::vector<std::int64_t> counts = loads(first[i], first[i]);
    if (i == 1) counts = loads(37, 41);  // 300 assignments
    part->after_step(counted({counts, loads(second[i], second[i])}));
    EXPECT_NEAR(part->choice_bias(0)[3].item<double>(), shifts[i], 2e-6) << i;
    EXPECT_NEAR(part->choice_bias(1)[3].item<double>(), others[i], 2e-6) << i;
    EXPECT_NEAR(gain(part), gains[i], 2e-6) << i;
    EXPECT_NEAR(part->state().at("threshold_shift"), (shifts[i] + others[i]) / 2, 2e-6);
  }
  const at::Tensor before = buffer(part, "bias").clone();
  part->after_step(counted({loads(50, 50), {}}));  // the second layer routed nothing
  EXPECT_TRUE(part->choice_bias(1).equal(before[1]));
  EXPECT_LT(part->choice_bias(0)[0].item<double>(), before[0][0].item<double>());
}

TEST(LogitShift, RaisesExpertsThatHaveHardlyAToken) {
  const auto part = balancer("threshold", kTwoLayers, {{"rate", 0.5}, {"revive", 0.1}});
  // 198 of 200 assignments; the last expert has 0.08 of its share.
  std::vector<std::int64_t> at_target = loads(28, 2);
  at_target[0] = 30;
  part->after_step(counted({at_target, loads(25, 25)}));
  EXPECT_NEAR(part->choice_bias(0)[7].item<double>(), 0.05, 1e-6);
  EXPECT_NEAR(part->choice_bias(0)[0].item<double>(), 0, 1e-6);
  EXPECT_NEAR(part->choice_bias(1)[7].item<double>(), 0, 1e-6);
}

TEST(LogitShift, HoldsTheModelOrEachExpertWhereAsked) {
  const auto moved = [](const char* by) {
    const auto part = balancer("threshold", kTwoLayers,
                               {{"rate", 1.0}, {"revive", 0.0}, {"by", std::string(by)}});
    part->after_step(counted({loads(40, 20), loads(10, 30)}));
    return buffer(part, "bias");
  };
  // By model: 400 of 400 assignments, no error. By expert: each expert's count against 25 tokens.
  EXPECT_EQ(moved("model").count_nonzero().item<std::int64_t>(), 0);
  const at::Tensor by_expert = moved("expert");
  EXPECT_NEAR(by_expert[0][0].item<double>(), -(std::log(1.6) + 0.6 / 3), 1e-6);
  EXPECT_NEAR(by_expert[0][7].item<double>(), -(std::log(0.8) - 0.2 / 3), 1e-6);
  EXPECT_NEAR(by_expert[1][0].item<double>(), 1, 1e-6);  // ln 0.4 - 0.6/3 is below -1
}

/// Stopping at any step and continuing from the saved buffers gives the same shift, bit for bit.
TEST(LogitShift, GoesOnFromItsBuffers) {
  for (const char* const name : {"threshold", "adaptive-l1"}) {
    const bool holds = name == std::string("adaptive-l1");
    const auto made = [&] {
      return holds ? balancer(name, kTwoLayers,
                              {{"controller", std::string("hold")},
                               {"dense_steps", std::int64_t{2}},
                               {"ramp_steps", std::int64_t{3}}})
                   : balancer(name, kTwoLayers);
    };
    const auto through = made();
    auto in_parts = made();
    for (int step = 0; step < 12; ++step) {
      const StepStatistics counts = counted({loads(50 - 3 * step, 0), loads(20 + step, 7)});
      through->after_step(counts);
      in_parts->after_step(counts);
      const auto next = made();
      for (const auto& item : in_parts->named_buffers())
        next->named_buffers()[item.key()].copy_(item.value());
      in_parts = next;
      for (const auto& item : through->named_buffers())
        EXPECT_TRUE(item.value().equal(buffer(in_parts, item.key().c_str()))) << item.key();
    }
    EXPECT_NE(through->choice_bias(0)[0].item<double>(), 0);
  }
}

}  // namespace
}  // namespace penstock::testing
