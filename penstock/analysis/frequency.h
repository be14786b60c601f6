// Active experts against how frequent a token is and how surprising it was to the model, each by
// itself and at fixed values of the other: frequent tokens are also the ones that are expected.
// ReMoE, section 5.1 and Figure 7 (arXiv:2412.14711), which looks at frequency alone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "penstock/analysis/token_experts.h"

namespace penstock::analysis {

/// How often each token id stands in the corpus, all splits, [V].
std::vector<double> corpus_frequencies(const Corpus& corpus);

/// Active experts of the places of one bin; sd over places, not n − 1.
struct ActiveMoments {
  double places = 0, mean = 0, sd = 0;
};

/// Tokens that occur from `least` to below 2·`least` times in the corpus.
struct FrequencyBin {
  double least = 0;
  std::int64_t tokens = 0;  ///< different ones
  ActiveMoments active;
  std::vector<ActiveMoments> by_surprisal;  ///< [S], one for each surprisal bin
};

/// Places whose surprisal is from `least` to below `limit` nats; the last bin has no limit.
struct SurprisalBin {
  double least = 0;
  std::optional<double> limit;
  ActiveMoments active;
};

/// How active experts a go with x = log2 of the frequency and s = the surprisal in nats, over
/// places. Nothing where one of the three does not vary, or x and s say the same.
///   r_x.s = (r_xa − r_xs r_sa) / √((1 − r_xs²)(1 − r_sa²))
///   a ≈ c + b_x x + b_s s, least squares
struct ActiveCorrelation {
  std::optional<double> frequency, surprisal;                  ///< r_xa, r_sa
  std::optional<double> together;                              ///< r_xs
  std::optional<double> frequency_partial, surprisal_partial;  ///< r_x.s, r_s.x
  std::optional<double> per_doubling, per_nat;                 ///< b_x, b_s
};

struct FrequencyReport {
  std::int64_t places = 0;                 ///< with a surprisal: not a window's first
  std::vector<FrequencyBin> by_frequency;  ///< those with places, ascending
  std::vector<SurprisalBin> by_surprisal;  ///< [S]
  ActiveCorrelation whole;                 ///< of the mean over layers, as the bins are
  std::vector<ActiveCorrelation> layers;   ///< [L]
};

/// Sums over places, which may come in any number.
class FrequencyCounter {
 public:
  FrequencyCounter(std::vector<double> frequencies, std::int64_t layers);
  /// Passes over a place without a surprisal.
  void add(const TokenPlace& place);
  FrequencyReport report() const;

 private:
  /// n, Σ and Σ of products of (x, s, a).
  struct Sums {
    double n = 0, x = 0, s = 0, a = 0, xx = 0, ss = 0, aa = 0, xs = 0, xa = 0, sa = 0;
    void add(double x_value, double s_value, double a_value);
    ActiveCorrelation correlation() const;
  };
  struct Cell {
    double n = 0, a = 0, aa = 0;
    ActiveMoments moments() const;
    Cell& operator+=(const Cell& other);
  };

  std::vector<double> frequencies_;
  std::vector<std::vector<Cell>> cells_;  // [F][S]
  std::vector<std::vector<bool>> seen_;   // [F][V] tokens with a place; [F] empty without any
  std::vector<Sums> sums_;                // [L + 1], the last of the mean over layers
};

}  // namespace penstock::analysis
