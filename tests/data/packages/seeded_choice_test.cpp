#include "penstock/data/packages/seeded_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "penstock/base/random.h"

namespace penstock {
namespace {

std::vector<std::string> chosen(const std::vector<std::pair<std::string, std::size_t>>& offered,
                                std::uint64_t seed, std::uint64_t bytes) {
  SeededChoice choice(seed, bytes);
  std::size_t most = 0;
  for (const auto& [name, size] : offered) {
    choice.offer(name, {std::string(size, 'x'), "domain", std::nullopt, name});
    most = std::max<std::size_t>(most, choice.bytes());
  }
  EXPECT_LE(most, bytes);
  std::vector<std::string> out;
  choice.take([&](const Document& document) { out.push_back(document.source); });
  return out;
}

TEST(SeededChoice, IsTheSameInWhateverOrderDocumentsCome) {
  std::vector<std::pair<std::string, std::size_t>> offered;
  for (std::size_t i = 0; i < 200; ++i) offered.emplace_back(std::to_string(i), 1 + i * i % 97);
  const auto all = chosen(offered, 7, 1 << 20);
  ASSERT_EQ(all.size(), offered.size());
  // The expected choice: documents in the seeded order, up to the first that exceeds 1000 bytes.
  std::vector<std::string> expected;
  std::size_t sum = 0;
  for (const auto& name : all) {
    const std::size_t number = std::stoul(name);
    sum += 1 + number * number % 97;
    if (sum > 1000) break;
    expected.push_back(name);
  }
  ASSERT_GT(expected.size(), 5u);
  for (std::uint64_t order = 0; order < 20; ++order) {
    shuffle(offered, order, 0);
    EXPECT_EQ(chosen(offered, 7, 1000), expected);
  }
  EXPECT_NE(chosen(offered, 8, 1000), expected);
}

TEST(SeededChoice, ADocumentLargerThanAllIsNotTaken) {
  EXPECT_TRUE(chosen({{"large", 11}}, 0, 10).empty());
  EXPECT_EQ(chosen({{"fits", 10}}, 0, 10).size(), 1u);
  // A name that is offered twice counts once.
  EXPECT_EQ(chosen({{"fits", 5}, {"fits", 5}}, 0, 10).size(), 1u);
}

}  // namespace
}  // namespace penstock
