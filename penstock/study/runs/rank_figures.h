// Computes how work was distributed over the processes of a run, from its metrics.jsonl. Runs of
// one process have no such figures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/study/json_field.h"

namespace penstock::study {

/// Figures over the last consecutive steps with the same number of ranks and the same division of
/// work.
struct RankFigures {
  std::int64_t ranks = 0;    ///< 0: one process
  double communication = 0;  ///< share of the steps' time spent on communication, waiting included
  std::vector<double> slowest;  ///< by rank, the share of steps in which it was the slowest
  /// By rank, seconds of computing in a step, mean over steps; empty if the log lists no ranks.
  std::vector<double> seconds;
  /// Load by rank, for the ranks that divide a layer's experts: assignments relative to an even
  /// share (1), mean over steps. Empty if experts are not divided, or the log lists no ranks.
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
  /// Adds the line of one step. Throws Error naming `where` for a figure that is not a number.
  void add(const nlohmann::json& line, const std::string& where);
  RankFigures figures() const;

 private:
  /// Whether the line has the same number of ranks and division of work as the lines before.
  bool goes_on(const RankFigures& line) const;

  RankFigures sums_;
  double step_seconds_ = 0, communication_ = 0;
  double timed_ = 0, loaded_ = 0;  // number of lines with each figure
};

/// The largest rank's figure ÷ the mean over ranks: 1 is even; NaN if the line has no such figure.
/// @param name  "rank_seconds" or "rank_load"
double spread_in(const nlohmann::json& line, const char* name, const std::string& where);

}  // namespace penstock::study
