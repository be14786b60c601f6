// Several corpora mixed by weight: chooses the corpus of each training sequence. It reads no text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/data/corpus/corpus.h"

namespace penstock {

/// A corpus and its share of the training sequences, relative to the other weights.
struct WeightedCorpus {
  Corpus corpus;
  double weight = 1;
};

/// The order in which a mixture takes its sequences: a pure function of weights, seed and index, so
/// that resuming needs no state. The order is divided into blocks of 2 / (smallest share)
/// sequences, rounded up to a power of two. At the end of each block, each corpus has had its share
/// of all sequences so far, to within one sequence. A block continues each corpus where the
/// previous block stopped, and its sequences are in random order. With one corpus the order is the
/// corpus's own.
class MixtureOrder {
 public:
  struct Place {
    std::size_t corpus = 0;
    std::int64_t index = 0;  ///< among the corpus's own sequences
  };

  /// Throws Error if a weight is not positive, or is more than 10^6 times another.
  MixtureOrder(const std::vector<double>& weights, std::uint64_t seed);

  /// Cost: O(log of the number of corpora).
  Place operator()(std::int64_t sequence) const;

 private:
  /// The number of sequences before `end` that come from the first `corpora` corpora.
  std::int64_t taken(std::size_t corpora, std::int64_t end) const;

  std::vector<double> bounds_;  // [corpora + 1], cumulative shares, 0 to 1
  std::uint64_t seed_;
  std::int64_t block_ = 1;
};

}  // namespace penstock
