// Python's random numbers, against what CPython 3.11 draws:
//   r = random.Random(SEED); r.sample(range(N), COUNT), one after another
#include "penstock/tasks/python_random.h"

#include <gtest/gtest.h>

namespace penstock::tasks {
namespace {

using Places = std::vector<std::size_t>;

TEST(PythonRandom, DrawsWhatPythonDraws) {
  PythonRandom zero(0);
  EXPECT_EQ(zero.sample(3, 3), (Places{1, 2, 0}));
  EXPECT_EQ(zero.sample(21, 2), (Places{8, 16}));
  EXPECT_EQ(zero.sample(22, 2), (Places{15, 12}));  // above 21, Python uses another method
  EXPECT_EQ(zero.sample(1000, 6), (Places{940, 802, 849, 310, 991, 488}));
  PythonRandom usual(1234);
  EXPECT_EQ(usual.sample(3, 3), (Places{1, 0, 2}));
  EXPECT_EQ(usual.sample(21, 2), (Places{2, 18}));
  EXPECT_EQ(usual.sample(22, 2), (Places{1, 21}));
  EXPECT_EQ(usual.sample(1000, 6), (Places{709, 85, 100, 784, 363, 242}));
  EXPECT_EQ(usual.sample(277, 6), (Places{8, 15, 177, 247, 237, 76}));
}

TEST(PythonRandom, DrawsManyOfAListThatShrinksOrUntilAllDiffer) {
  PythonRandom random(1234);
  for (const auto& [n, count] : {std::pair(3, 3), {21, 2}, {22, 2}, {1000, 6}, {277, 6}})
    random.sample(static_cast<std::size_t>(n), static_cast<std::size_t>(count));
  const Places sixty = random.sample(285, 60);
  EXPECT_EQ((Places(sixty.begin(), sixty.begin() + 8)), (Places{46, 93, 58, 7, 257, 249, 127, 33}));
  EXPECT_EQ((Places(sixty.end() - 4, sixty.end())), (Places{174, 239, 243, 241}));
  EXPECT_EQ(random.sample(40000, 5), (Places{38988, 11139, 28809, 34027, 28696}));
  EXPECT_EQ(random.sample(3, 1), (Places{1}));
}

TEST(PythonRandom, TakesSeedsOfSixtyFourBits) {
  PythonRandom random((std::uint64_t{1} << 40) | 5);
  EXPECT_EQ(random.sample(3, 3), (Places{2, 1, 0}));
  EXPECT_EQ(random.sample(21, 2), (Places{16, 1}));
  EXPECT_EQ(random.sample(22, 2), (Places{5, 2}));
  EXPECT_EQ(random.sample(1000, 6), (Places{815, 835, 137, 244, 951, 669}));
}

}  // namespace
}  // namespace penstock::tasks
