// The numbers of a line of metrics.jsonl that TensorBoard receives, and their names.
#include "penstock/train/metrics_events.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock {
namespace {

TEST(MetricsEvents, HaveTheNumbersOfTheLineAndOfItsObjects) {
  const nlohmann::ordered_json line = {
      {"step", 3},
      {"loss", 2.5},
      {"share_of_peak", nullptr},
      {"load", {1, 2}},
      {"validation", {{"loss", 3.5}, {"by_domain", {{"web", 1}}}, {"step", 3}}},
      {"selection", {{"accuracy", 0.5}}}};
  EXPECT_EQ(metrics_scalars(line),
            (std::map<std::string, double>{
                {"train/loss", 2.5}, {"validation/loss", 3.5}, {"selection/accuracy", 0.5}}));
}

}  // namespace
}  // namespace penstock
