#include "penstock/base/named_word.h"

#include <gtest/gtest.h>

#include "tests/base/error_of.h"

namespace penstock {
namespace {

enum class Tide { low, high };
constexpr std::array<std::string_view, 2> words(Tide) { return {"low", "high"}; }

TEST(OfWord, KnowsTheEnumsWordsAlone) {
  EXPECT_EQ(of_word<Tide>("low"), Tide::low);
  EXPECT_EQ(of_word<Tide>("high"), Tide::high);
  for (const char* const other : {"", "Low", "lo", "low "}) EXPECT_FALSE(of_word<Tide>(other));
}

TEST(NamedWord, SaysWhichWordsThereAre) {
  EXPECT_EQ(word_list<Tide>(), "low, high");
  EXPECT_EQ(named_word<Tide>("high", "tide"), Tide::high);
  EXPECT_EQ(testing::error_of([] { named_word<Tide>("ebb", "tide"); }),
            "tide = 'ebb': choose from low, high");
}

}  // namespace
}  // namespace penstock
