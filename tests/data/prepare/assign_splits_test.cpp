#include "penstock/data/prepare/assign_splits.h"

#include <array>
#include <numeric>
#include <vector>

#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;

TEST(AssignSplits, ContiguousCutsAtTokenPositions) {
  // 10 + 20 + 30 tokens: the share 0.5 ends at token 30, 0.8 at token 48.
  const std::vector<std::int64_t> lengths = {10, 20, 30};
  bool fell_back = true;
  const auto pieces =
      assign_splits(lengths, parse_split_plan("contiguous:0.5,0.3,0.2"), 0, fell_back);
  EXPECT_FALSE(fell_back);
  ASSERT_EQ(pieces.size(), 4u);
  const auto expect = [&](std::size_t i, std::size_t document, std::int64_t begin, std::int64_t end,
                          Split split) {
    EXPECT_EQ(pieces[i].document, document);
    EXPECT_EQ(pieces[i].begin, begin);
    EXPECT_EQ(pieces[i].end, end);
    EXPECT_EQ(pieces[i].split, split);
  };
  expect(0, 0, 0, 10, Split::kTrain);
  expect(1, 1, 0, 20, Split::kTrain);
  expect(2, 2, 0, 18, Split::kValidation);
  expect(3, 2, 18, 30, Split::kTest);
}

TEST(AssignSplits, DocumentsStayWholeAndSharesAreMet) {
  std::vector<std::int64_t> lengths(400);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    lengths[i] = 50 + static_cast<std::int64_t>(i * 37 % 100);
  const double total =
      static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  bool fell_back = true;
  const SplitPlan plan = parse_split_plan("0.8,0.15,0.05");
  const auto pieces = assign_splits(lengths, plan, 1, fell_back);
  EXPECT_FALSE(fell_back);
  ASSERT_EQ(pieces.size(), 400u);
  std::array<double, 3> sums{};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(pieces[i].document, i);
    EXPECT_EQ(pieces[i].end - pieces[i].begin, lengths[i]);
    sums[static_cast<std::size_t>(pieces[i].split)] += static_cast<double>(lengths[i]);
  }
  for (std::size_t s = 0; s < 3; ++s) EXPECT_NEAR(sums[s] / total, plan.shares[s], 0.005);
  const auto splits_of = [&](std::uint64_t seed) {
    std::vector<Split> out;
    for (const auto& piece : assign_splits(lengths, plan, seed, fell_back))
      out.push_back(piece.split);
    return out;
  };
  EXPECT_EQ(splits_of(1), splits_of(1));
  EXPECT_NE(splits_of(1), splits_of(2));
}

TEST(AssignSplits, ASingleDocumentIsCutInstead) {
  const std::vector<std::int64_t> lengths = {1000};
  bool fell_back = false;
  const auto pieces = assign_splits(lengths, parse_split_plan("0.9,0.1"), 0, fell_back);
  EXPECT_TRUE(fell_back);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].end, 900);
  EXPECT_EQ(pieces[1].split, Split::kValidation);
}

TEST(AssignSplits, PlansAreChecked) {
  EXPECT_EQ(parse_split_plan("contiguous:0.9,0.1,0").shares, (std::array<double, 3>{0.9, 0.1, 0}));
  EXPECT_TRUE(parse_split_plan("contiguous:1").contiguous);
  for (const char* bad :
       {"", "0.9", "0.9,0.2", "1.5,-0.5", "0.5,0.5,0,0", "0.9,0.1,", "a,b", "0.9;0.1", "nan,0,0"})
    expect_says(error_of([&] { parse_split_plan(bad); }), {bad, "sum to 1"});
}

}  // namespace
}  // namespace penstock
