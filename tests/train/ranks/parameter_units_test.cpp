// The positions at which units are cut for their ranks, piece by piece.
#include "penstock/train/ranks/parameter_units.h"

#include <gtest/gtest.h>

#include "penstock/ops/square_sums.h"

namespace penstock {
namespace {

TEST(ParameterUnits, GiveEachPieceToTheRankOfItsPlace) {
  const std::int64_t piece = ops::kSquarePiece;
  const std::vector<ParameterSize> sizes = {{"layer_0.a", 7 * piece + 5},
                                            {"layer_0.b", 3},
                                            {"layer_0.c", 40 * piece},
                                            {"layer_0.d", piece - 1}};
  std::int64_t total = 0;
  for (const ParameterSize& size : sizes) total += size.elements;
  for (const int ranks : {1, 2, 3, 5, 16, 64, 100}) {
    const auto units = parameter_units(sizes, {}, ranks, ranks);
    ASSERT_EQ(units.size(), 1U);
    std::int64_t offset = 0, found = 0;
    for (std::size_t p = 0; p < sizes.size(); ++p) {
      for (std::int64_t begin = 0; begin < sizes[p].elements; begin += piece) {
        const auto rank = static_cast<std::size_t>((offset + begin) * ranks / total);
        const std::int64_t end = std::min(begin + piece, sizes[p].elements);
        std::size_t holders = 0;
        for (const Span& span : units[0].spans[rank])
          holders += span.parameter == p && span.begin <= begin && end <= span.end ? 1 : 0;
        EXPECT_EQ(holders, 1U) << ranks << " ranks, parameter " << p << " at " << begin;
      }
      offset += sizes[p].elements;
    }
    for (int rank = 0; rank < ranks; ++rank) found += units[0].elements(rank);
    EXPECT_EQ(found, total) << ranks;
  }
}

}  // namespace
}  // namespace penstock
