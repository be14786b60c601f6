#include "penstock/study/rank_figures.h"

#include <cmath>

namespace penstock::study {
namespace {

/// What the trainer writes of one figure (train/rank_spread.h).
struct LoggedSpread {
  double mean = 0, max = 0, rank = 0;
  std::vector<double> by_rank;
  template <class V>
  void visit(V& v) {
    v("mean", mean, Presence::required);
    v("max", max, Presence::required);
    v("rank", rank, Presence::required);
    v("by_rank", by_rank);
  }
};

void add_to(std::vector<double>& sums, const std::vector<double>& values) {
  sums.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
}

void divide(std::vector<double>& sums, double by) {
  for (double& sum : sums) sum /= by;
}

}  // namespace

void RankReader::add(const nlohmann::json& line, const std::string& where) {
  const double ranks = field_of(line, "ranks", where, 0.0);
  if (ranks < 2) return;
  PENSTOCK_CHECK(ranks <= 1 << 20, where, ": ranks is out of range");
  if (ranks != sums_.ranks) *this = {};
  sums_.ranks = ranks;
  step_seconds_ += field_of(line, "step_seconds", where, 0.0);
  communication_ += field_of(line, "communication_seconds", where, 0.0);
  if (line.contains("rank_seconds")) {
    const auto seconds = field_of<LoggedSpread>(line, "rank_seconds", where);
    PENSTOCK_CHECK(seconds.rank >= 0 && seconds.rank < ranks, where,
                   ": rank_seconds names a rank that there is not");
    sums_.slowest.resize(static_cast<std::size_t>(ranks));
    ++sums_.slowest[static_cast<std::size_t>(seconds.rank)];
    add_to(sums_.seconds, seconds.by_rank);
    ++timed_;
  }
  if (line.contains("rank_load")) {
    add_to(sums_.load, field_of<LoggedSpread>(line, "rank_load", where).by_rank);
    ++loaded_;
  }
}

RankFigures RankReader::figures() const {
  RankFigures out = sums_;
  if (out.empty()) return out;
  out.communication = step_seconds_ > 0 ? communication_ / step_seconds_ : 0;
  divide(out.slowest, timed_);
  divide(out.seconds, timed_);
  divide(out.load, loaded_);
  return out;
}

double spread_in(const nlohmann::json& line, const char* name, const std::string& where) {
  if (!line.contains(name)) return NAN;
  const auto spread = field_of<LoggedSpread>(line, name, where);
  return spread.mean > 0 ? spread.max / spread.mean : NAN;
}

}  // namespace penstock::study
