// The share of the processor that threads get, from made-up schedstat files.
#include "penstock/base/processor_share.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

class ProcessorShareTest : public ::testing::Test {
 protected:
  /// Writes a thread's milliseconds on a processor and in the queue.
  void thread(const std::string& id, int running, int waiting) const {
    std::filesystem::create_directories(tasks_.path() / id);
    std::ofstream(tasks_.path() / id / "schedstat")
        << running << "000000 " << waiting << "000000 17\n";
  }
  testing::TempDirectory tasks_;
};

TEST_F(ProcessorShareTest, IsOfWhatThreadsWereReadyToUseSinceTheLastLook) {
  thread("7", 5000, 9000);  // before the share is measured
  thread("8", 100, 0);
  ProcessorShare share(tasks_.path());
  thread("7", 5300, 9600);
  thread("8", 200, 0);
  EXPECT_NEAR(*share.look(), 0.4, 1e-12);  // 300 + 100 of 1000 ms
  thread("7", 5500, 9600);
  EXPECT_EQ(share.look(), 1);
}

TEST_F(ProcessorShareTest, ThreadsComeAndGo) {
  thread("7", 1000, 0);
  thread("8", 1000, 1000);
  ProcessorShare share(tasks_.path());
  std::filesystem::remove_all(tasks_.path() / "8");
  thread("7", 1100, 100);
  thread("9", 100, 100);
  EXPECT_EQ(share.look(), 0.5);
}

TEST_F(ProcessorShareTest, WaitsForEnoughToGoBy) {
  thread("7", 0, 0);
  ProcessorShare share(tasks_.path());
  thread("7", 20, 60);
  EXPECT_FALSE(share.look());
  thread("7", 30, 90);
  EXPECT_EQ(share.look(), 0.25);
}

TEST_F(ProcessorShareTest, NothingWhereTheSystemDoesNotTell) {
  ProcessorShare share(tasks_.path() / "none");
  EXPECT_FALSE(share.look());
}

TEST(BusyField, SaysHowMuchIsLeftWhereItIsLittle) {
  EXPECT_EQ(busy_field(0.41, 2, 2)->text, "other programs use the processor: 41 % of 2 cores left");
  EXPECT_EQ(busy_field(0.5, 1, 2)->text, "other programs use the processor: 50 % of one core left");
  EXPECT_FALSE(busy_field(0.8, 2, 2));
  EXPECT_FALSE(busy_field({}, 2, 2));
  EXPECT_FALSE(busy_field(0.41, 3, 2));
}

TEST(BusyField, IsShortenedFirstAndLeftAwayLast) {
  const std::vector<ProgressField> fields = {
      {.text = "step 3/20"}, *busy_field(0.41, 2, 2), {.text = "grad 181", .rank = 3}};
  EXPECT_EQ(fitted_line(fields, 75),
            "step 3/20  other programs use the processor: 41 % of 2 cores left  grad 181");
  EXPECT_EQ(fitted_line(fields, 74), "step 3/20  CPU 41%  grad 181");
  EXPECT_EQ(fitted_line(fields, 20), "step 3/20  CPU 41%");
  EXPECT_EQ(fitted_line(fields, 17), "step 3/20");
}

}  // namespace
}  // namespace penstock
