// Decides which text is for training, validation and test.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "penstock/data/corpus/split.h"

namespace penstock {

/// How a corpus is divided: by whole documents, or by cutting each domain's text.
struct SplitPlan {
  bool contiguous = false;
  /// Cut at exactly these bytes, even within a character.
  bool exact = false;
  std::array<double, kSplits> shares = {1, 0, 0};
};

/// "0.9,0.05,0.05", "contiguous:0.9,0.1,0" or, exact as well, "bytes:0.9,0.05,0.05": train,
/// validation, test; a last share of 0 may be left out. Throws Error unless the shares are from 0
/// to 1 and sum to 1.
SplitPlan parse_split_plan(const std::string& text);

/// Units [begin, end) of a document's length, for a split.
struct Piece {
  std::size_t document = 0;
  std::int64_t begin = 0, end = 0;
  Split split = Split::kTrain;
};

/// Divides documents of these lengths (in whatever unit) that belong to one domain, in order.
/// By documents: an order drawn from the seed fills validation, then test, up to their shares of
/// the length, and the rest is for training. Contiguous: the first share trains, the next
/// validates, the rest tests. `fell_back` is set if a split by documents left a share empty (too
/// few documents) and the domain was therefore cut.
std::vector<Piece> assign_splits(std::span<const std::int64_t> lengths, const SplitPlan& plan,
                                 std::uint64_t seed, bool& fell_back);

}  // namespace penstock
