// Assigns text to training, validation and test.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "penstock/data/corpus/split.h"

namespace penstock {

/// How a corpus is divided: by whole documents, or (contiguous) by cutting each domain's text.
struct SplitPlan {
  bool contiguous = false;
  /// Whether to cut at the exact byte, even within a character.
  bool exact = false;
  std::array<double, kSplits> shares = {1, 0, 0};
};

/// Parses "0.9,0.05,0.05", "contiguous:0.9,0.1,0" or "bytes:0.9,0.05,0.05" (contiguous and exact):
/// the shares of training, validation and test. A last share of 0 may be left out. Throws Error
/// unless the shares are from 0 to 1 and sum to 1.
SplitPlan parse_split_plan(const std::string& text);

/// The part [begin, end) of a document, and its split.
struct Piece {
  std::size_t document = 0;
  std::int64_t begin = 0, end = 0;
  Split split = Split::kTrain;
};

/// Divides documents of one domain, in order; their lengths can be in any unit.
/// By documents: documents in an order drawn from the seed fill validation, then test, up to their
/// shares of the length, and the rest is for training. Contiguous: the first share is for training,
/// the next for validation, the rest for test. Sets `fell_back` if a split by documents left a
/// share empty (too few documents), so that the domain was cut instead.
std::vector<Piece> assign_splits(std::span<const std::int64_t> lengths, const SplitPlan& plan,
                                 std::uint64_t seed, bool& fell_back);

}  // namespace penstock
