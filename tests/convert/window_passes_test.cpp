#include "penstock/convert/window_passes.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tests/models/tiny_decoder.h"

namespace penstock {
namespace {

TEST(WindowPasses, GiveEveryWindowOnceAndTellTheShareBeforeEach) {
  const auto model = make_model(testing::tiny_decoder("dense", 4));
  const at::Tensor windows = at::arange(20, at::kLong).view({5, 4});
  std::vector<at::Tensor> seen;
  std::vector<double> told;
  run_over_windows(
      *model, windows, 2, [&](const at::Tensor& tokens) { seen.push_back(tokens); }, "looking",
      [&](std::string_view what, double done) {
        EXPECT_EQ(what, "looking");
        EXPECT_EQ(told.size(), seen.size());
        told.push_back(done);
      });
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[2].size(0), 1);
  EXPECT_TRUE(at::cat(seen).equal(windows));
  EXPECT_EQ(told, (std::vector<double>{0, 0.4, 0.8}));
}

TEST(WindowPasses, MeasureWithoutGradientsAndLeaveTheModelsMode) {
  const auto model = make_model(testing::tiny_decoder("dense", 4));
  model->train();
  int passes = 0;
  run_over_windows(*model, at::zeros({1, 4}, at::kLong), 8, [&](const at::Tensor&) {
    ++passes;
    EXPECT_FALSE(model->is_training());
    EXPECT_FALSE(at::GradMode::is_enabled());
  });
  EXPECT_EQ(passes, 1);
  EXPECT_TRUE(model->is_training());
  EXPECT_TRUE(at::GradMode::is_enabled());
}

}  // namespace
}  // namespace penstock
