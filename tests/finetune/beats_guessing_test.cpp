#include "penstock/finetune/beats_guessing.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace penstock {
namespace {

TEST(Learnt, IsWhatLiesAboveTheMajorityByMoreThanItsError) {
  const auto result = [](double majority, std::vector<double> accuracies) {
    nlohmann::ordered_json out = {{"majority_accuracy", majority}};
    for (const double accuracy : accuracies)
      out["by_k"].push_back({{"k", nullptr}, {"accuracy", accuracy}, {"texts", 100}});
    return why_nothing_was_learnt(out);
  };
  // 1.96 sqrt(0.6 * 0.4 / 100) = 0.096.
  EXPECT_NEAR(accuracy_error(0.6, 100), 0.09602, 1e-5);
  EXPECT_EQ(result(0.5, {0.6}), "");
  EXPECT_NE(result(0.51, {0.6}).find("60.00 % of 100 texts"), std::string::npos);
  EXPECT_EQ(result(0.51, {0.5, 0.7}), "");  // one k that beats guessing is enough
  EXPECT_NE(result(0.9, {0.5, 0.8}).find("80.00 %"), std::string::npos);
  EXPECT_EQ(result(0.9, {1.0}), "");
}

}  // namespace
}  // namespace penstock
