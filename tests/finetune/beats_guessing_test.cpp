#include "penstock/finetune/beats_guessing.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace penstock {
namespace {

TEST(Learnt, IsWhatHasAnIntervalAboveTheMajority) {
  const auto result = [](double majority, std::vector<double> accuracies) {
    nlohmann::ordered_json out = {{"majority_accuracy", majority}};
    for (const double accuracy : accuracies)
      out["by_k"].push_back({{"k", nullptr}, {"accuracy", accuracy}, {"texts", 100}});
    return why_nothing_was_learnt(out);
  };
  // Wilson's interval of 60 of 100: 0.5020 to 0.6906.
  EXPECT_EQ(result(0.5, {0.6}), "");
  EXPECT_NE(
      result(0.51, {0.6})
          .find("60.00 % of 100 texts, has a 95 % interval from 50.20 to 69.06 %, which is not "
                "above guessing the majority class, 51.00 %"),
      std::string::npos);
  EXPECT_EQ(result(0.51, {0.5, 0.7}), "");  // one k that beats guessing is enough
  EXPECT_NE(result(0.9, {0.5, 0.8}).find("80.00 %"), std::string::npos);
  EXPECT_EQ(result(0.9, {1.0}), "");
  // All of 100 texts right: 0.9630 to 1. The interval has a length where no text is wrong.
  EXPECT_NE(result(0.97, {1.0}).find("from 96.30 to 100.00 %"), std::string::npos);
}

}  // namespace
}  // namespace penstock
