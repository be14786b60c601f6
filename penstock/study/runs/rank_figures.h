// The distribution of work over the processes of a run, from its metrics.jsonl. Runs of one process
// have none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/study/json_field.h"

namespace penstock::study {

/// Of the last steps in a row that as many ranks shared in the same way.
struct RankFigures {
  std::int64_t ranks = 0;    ///< 0: one process
  double communication = 0;  ///< share of the steps' time that went to the exchange, with waiting
  std::vector<double> slowest;  ///< by rank, the share of steps in which it computed the longest
  /// By rank, a step's computing, mean of the steps; empty where the log lists no ranks.
  std::vector<double> seconds;
  /// By rank of those that hold a layer's experts between them: assignments, where 1 is an even
  /// share, mean of the steps; empty: experts are not divided, or the log lists no ranks.
  std::vector<double> load;

  bool empty() const { return ranks == 0; }
  template <class V>
  void visit(V& v) {
    v("ranks", ranks, Presence::required);
    v("communication", communication);
    v("slowest", slowest, Presence::if_filled);
    v("seconds", seconds, Presence::if_filled);
    v("expert_load", load, Presence::if_filled);
  }
};

/// Collects the figures line by line.
class RankReader {
 public:
  /// A line of one step. Throws Error naming `where` for a figure that is none.
  void add(const nlohmann::json& line, const std::string& where);
  RankFigures figures() const;

 private:
  /// Whether the line is of as many ranks, in the same way, as those before.
  bool goes_on(const RankFigures& line) const;

  RankFigures sums_;
  double step_seconds_ = 0, communication_ = 0;
  double timed_ = 0, loaded_ = 0;  // lines with either figure
};

/// The line's figure, the largest rank's in shares of the mean: 1 is even; NaN where it has none.
/// @param name  "rank_seconds" or "rank_load"
double spread_in(const nlohmann::json& line, const char* name, const std::string& where);

}  // namespace penstock::study
