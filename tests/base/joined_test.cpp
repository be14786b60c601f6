#include "penstock/base/joined.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace {

struct Gate {
  std::string_view name;
  int number;
};

TEST(Joined, PutsTextsBetweenItems) {
  EXPECT_EQ(penstock::joined(std::set<std::string>{"b", "a", "c"}), "a, b, c");
  EXPECT_EQ(penstock::joined(std::vector<std::string>{"sluice", "weir"}, " | "), "sluice | weir");
}

TEST(Joined, OfOneItemOrNoneHasNothingBetween) {
  EXPECT_EQ(penstock::joined(std::vector<std::string>{"sluice"}), "sluice");
  EXPECT_EQ(penstock::joined(std::vector<std::string>{}), "");
}

TEST(Joined, TakesTheTextFromAMemberOrAFunction) {
  const std::vector<Gate> gates = {{"sluice", 1}, {"weir", 2}};
  EXPECT_EQ(penstock::joined(gates, ", ", &Gate::name), "sluice, weir");
  EXPECT_EQ(
      penstock::joined(gates, "+", [](const Gate& gate) { return std::to_string(gate.number); }),
      "1+2");
}

TEST(Joined, HasNothingBetweenEmptyTextsAtTheBeginning) {
  EXPECT_EQ(penstock::joined(std::vector<std::string>{"", "", "weir", ""}), "weir, ");
}

}  // namespace
