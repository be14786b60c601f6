// An n-gram model of token ids, as a baseline that a useful neural model of the same tokens must
// beat. It is computed from counts by closed formulas, without torch and without training.
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
/// where h' is h without its oldest token, and N1, N2 and N3 are the numbers of tokens seen once,
/// twice and more often after h. Below the highest order, c(hw) is the number of different tokens
/// seen before hw; the beginning of the text counts as one of them. If h is empty, p(w|h') is 1/V.
/// A context that was never seen is skipped. The discounts of an order are
///   D_i = i − (i+1)·Y·n_{i+1}/n_i,  Y = n1/(n1 + 2·n2),
/// where n_i is the number of the order's n-grams with count i. If an n_i is 0 or a D_i is outside
/// [0, i], the discounts are ½, 1 and 1½; this occurs with tiny texts and with small alphabets.
/// Source: Chen & Goodman, "An empirical study of smoothing techniques for language modeling"
/// (1998), §3; the fallback is our own. A built model is immutable and thread-safe.
class NgramModel {
 public:
  /// Counts the n-grams of `text`, whose ids are below `vocab`.
  /// Throws Error for an order outside 1..6 and for a text shorter than the order.
  /// Memory: about 40 bytes for each different n-gram of each order.
  NgramModel(std::span<const std::uint32_t> text, std::int64_t vocab, int order);
  ~NgramModel();
  NgramModel(NgramModel&&) noexcept;

  /// p(token | before), with `before` in the text's order. Only its last order − 1 tokens matter.
  double probability(std::span<const std::uint32_t> before, std::uint32_t token) const;

 private:
  struct Order;
  std::unique_ptr<Order[]> orders_;
  std::int64_t vocab_ = 0;
  int order_ = 0;
};

/// Counts the training split and scores the targets that evaluate() scores with these options. The
/// context of a target is the same as for a model: the earlier tokens of its window, and only those
/// of its document if documents are isolated. With streams, the last `memory_length` tokens before
/// the window are added; -1: all. Other options have no effect.
LossTotals ngram_baseline(const Corpus& corpus, int order, const EvaluateOptions& options);

}  // namespace penstock
