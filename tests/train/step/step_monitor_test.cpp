// A step that takes long is reported. A step that receives a signal stops at its next call of the
// watch.
#include "penstock/train/step/step_monitor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <thread>

namespace penstock {
namespace {

using namespace std::chrono_literals;

class StepMonitorTest : public ::testing::Test {
 protected:
  ~StepMonitorTest() override { std::fclose(file_); }
  std::string said() const {
    std::string out(static_cast<std::size_t>(std::ftell(file_)), ' ');
    std::rewind(file_);
    out.resize(std::fread(out.data(), 1, out.size(), file_));
    return out;
  }
  std::FILE* file_ = std::tmpfile();
};

TEST_F(StepMonitorTest, SaysWhatALongStepIsDoing) {
  const InterruptGuard interrupt;
  ProgressLine progress(file_);
  StepMonitor monitor(interrupt, progress, {.quiet = 0s, .pause = 1h});
  const int result = monitor.during(3, 9, [&](const StepWatch& watch) {
    watch({.part = 1, .parts = 4, .layer = 2, .layers = 8, .direction = PassDirection::backward});
    while (!monitor.has_shown_text()) std::this_thread::yield();
    return 5;
  });
  EXPECT_EQ(result, 5);
  EXPECT_EQ(said(), "step 3/9  micro-batch 2 of 4, layer 3 of 8 backward  for 0s\n");
}

TEST_F(StepMonitorTest, SaysNothingOfShortStepsAndBetweenThem) {
  const InterruptGuard interrupt;
  ProgressLine progress(file_);
  StepMonitor monitor(interrupt, progress, {.quiet = 1h});
  monitor.during(1, 2, [](const StepWatch& watch) {
    watch({});
    return 0;
  });
  EXPECT_FALSE(monitor.has_shown_text());
  EXPECT_EQ(said(), "");
}

TEST_F(StepMonitorTest, StopsAStepAfterASignal) {
  const InterruptGuard interrupt;
  ProgressLine progress(nullptr);
  StepMonitor monitor(interrupt, progress, {});
  int layers = 0;
  const auto step = [&](const StepWatch& watch) {
    for (; layers < 9; ++layers) {
      watch({.layer = layers, .layers = 9});
      if (layers == 4) ::raise(SIGTERM);
    }
    return layers;
  };
  EXPECT_THROW(monitor.during(1, 1, step), StepStopped);
  EXPECT_EQ(layers, 5);  // the current layer is finished
}

TEST_F(StepMonitorTest, SaysWhereASignalMeetsAStep) {
  const InterruptGuard interrupt;
  ProgressLine progress(file_);
  StepMonitor monitor(interrupt, progress, {.quiet = 1h});
  monitor.during(3, 9, [&](const StepWatch& watch) {
    watch({.part = 0, .parts = 2, .layer = 6, .layers = 8});
    ::raise(SIGTERM);
    while (!monitor.has_shown_text()) std::this_thread::yield();
    return 0;
  });
  const std::string text = said();
  EXPECT_TRUE(text.starts_with("stopping in step 3/9  micro-batch 1 of 2, layer 7 of 8 forward"))
      << text;
}

TEST_F(StepMonitorTest, ASignalIsAcknowledgedAtOnce) {
  const InterruptGuard interrupt("stopping soon", file_);
  ::raise(SIGTERM);
  // Some senders send twice: the second signal neither ends the process nor repeats the message.
  ::raise(SIGTERM);
  std::fseek(file_, 0, SEEK_END);
  EXPECT_EQ(said(), "stopping soon\n");
}

TEST(InterruptDeathTest, ASecondCtrlCEndsTheProcess) {
  const auto interrupted_twice = [] {
    const InterruptGuard interrupt;
    ::raise(SIGINT);
    ::raise(SIGINT);
    _exit(0);
  };
  EXPECT_EXIT(interrupted_twice(), ::testing::ExitedWithCode(130), "");
}

TEST(StepPlace, TextNamesPartsWhereThereAreSeveral) {
  EXPECT_EQ(place_text({.part = 0, .parts = 1, .layer = 0, .layers = 2}, "pass"),
            "layer 1 of 2 forward");
  EXPECT_EQ(place_text({.part = 2, .parts = 3, .layer = 2, .layers = 2}, "pass"),
            "pass 3 of 3, head forward");
}

}  // namespace
}  // namespace penstock
