// Measures how the number of active experts depends on a token's frequency and on its surprisal,
// each alone and with the other held fixed, because frequent tokens also have a low surprisal.
// ReMoE, section 5.1 and Figure 7 (arXiv:2412.14711), considers the frequency alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "penstock/analysis/token_experts.h"

namespace penstock::analysis {

/// The number of occurrences of each token id in the corpus, over all splits, [V].
std::vector<double> corpus_frequencies(const Corpus& corpus);

/// Mean and standard deviation (divisor n, not n − 1) of the active experts at the positions in a
/// bin.
struct ActiveMoments {
  double places = 0, mean = 0, sd = 0;
};

/// Tokens that occur from `least` to below 2·`least` times in the corpus.
struct FrequencyBin {
  double least = 0;
  std::int64_t tokens = 0;  ///< different tokens
  ActiveMoments active;
  std::vector<ActiveMoments> by_surprisal;  ///< [S], one for each surprisal bin
};

/// Positions whose surprisal is from `least` to below `limit` nats; the last bin has no limit.
struct SurprisalBin {
  double least = 0;
  std::optional<double> limit;
  ActiveMoments active;
};

/// Correlation of the number of active experts a with x = log2 of the frequency and s = the
/// surprisal in nats, over positions. A member has no value if one of its variables is constant;
/// the partial correlations and b also have none if x and s are collinear.
///   r_x.s = (r_xa − r_xs r_sa) / √((1 − r_xs²)(1 − r_sa²))
///   a ≈ c + b_x x + b_s s, least squares
struct ActiveCorrelation {
  std::optional<double> frequency, surprisal;                  ///< r_xa, r_sa
  std::optional<double> together;                              ///< r_xs
  std::optional<double> frequency_partial, surprisal_partial;  ///< r_x.s, r_s.x
  std::optional<double> per_doubling, per_nat;                 ///< b_x, b_s
};

struct FrequencyReport {
  /// positions with a surprisal: all but each window's first
  std::int64_t places = 0;
  std::vector<FrequencyBin> by_frequency;  ///< bins with positions, by ascending frequency
  std::vector<SurprisalBin> by_surprisal;  ///< [S]
  ActiveCorrelation whole;                 ///< of the mean of a over layers, as in the bins
  std::vector<ActiveCorrelation> layers;   ///< [L]
};

/// Accumulates sums over any number of positions.
class FrequencyCounter {
 public:
  FrequencyCounter(std::vector<double> frequencies, std::int64_t layers);
  /// Ignores a position without a surprisal.
  void add(const TokenPlace& place);
  FrequencyReport report() const;

 private:
  /// n, the sums of x, s and a, and the sums of their products.
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
  std::vector<std::vector<bool>> seen_;   // [F][V] tokens that occurred; [F] empty if none did
  std::vector<Sums> sums_;                // [L + 1], the last one for the mean over layers
};

}  // namespace penstock::analysis
