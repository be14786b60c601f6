// An n-gram model of token ids: what a neural model of the same tokens has to beat before its
// figures mean anything. Counts and closed formulas; no torch, no training.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "penstock/data/corpus/corpus.h"
#include "penstock/eval/perplexity.h"

namespace penstock {

inline constexpr int kMostNgramOrder = 6;

/// Interpolated Kneser-Ney with three discounts per order ("modified"), estimated from the counts:
///   p(w|h) = (c(hw) − D(c(hw)))⁺ / c(h) + (D1·N1(h) + D2·N2(h) + D3·N3(h)) / c(h) · p(w|h'),
/// h' is h without its oldest token, N1, N2, N3 count the tokens seen once, twice, more often after
/// h; below the highest order c(hw) is the number of different tokens seen before hw (the text's
/// begin is one of them); under the order of no context stands 1/V. A context never seen is
/// skipped. D_i = i − (i+1)·Y·n_{i+1}/n_i with Y = n1/(n1 + 2·n2), of the counts of that order; ½,
/// 1, 1½ where a count of counts is zero or a D falls outside [0, i] (tiny texts, and the few
/// tokens of an alphabet). Source: Chen & Goodman, "An empirical study of smoothing techniques for
/// language modeling" (1998), §3; the fallback is ours. Immutable once built; thread-safe.
class NgramModel {
 public:
  /// Counts `text`, ids below `vocab`. Throws Error for an order outside 1..6, or a text shorter
  /// than the order. Memory: about 40 bytes for each different n-gram of each order.
  NgramModel(std::span<const std::uint32_t> text, std::int64_t vocab, int order);
  ~NgramModel();
  NgramModel(NgramModel&&) noexcept;

  /// p(token | the tokens before it, in order of the text); only the last order − 1 of them count.
  double probability(std::span<const std::uint32_t> before, std::uint32_t token) const;

 private:
  struct Order;
  std::unique_ptr<Order[]> orders_;
  std::int64_t vocab_ = 0;
  int order_ = 0;
};

/// Counts the train split and scores every token of another but its first, each with the tokens of
/// that split before it: what evaluate() scores of a whole split. Documents are not told apart.
LossTotals ngram_baseline(const Corpus& corpus, int order, Split split);

}  // namespace penstock
