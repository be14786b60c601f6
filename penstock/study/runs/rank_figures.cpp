#include "penstock/study/runs/rank_figures.h"

#include <cmath>

namespace penstock::study {
namespace {

/// One figure in the trainer's log (train/layouts/rank_spread.h).
struct LoggedSpread {
  double mean = 0, max = 0;
  std::int64_t rank = 0;
  std::vector<double> by_rank;
  template <class V>
  void visit(V& v) {
    v("mean", mean, Presence::required);
    v("max", max, Presence::required);
    v("rank", rank, Presence::required);
    v("by_rank", by_rank);
  }
};

/// The figures of one step.
RankFigures figures_in(const nlohmann::json& line, const std::string& where) {
  RankFigures out{.ranks = field_of(line, "ranks", where, std::int64_t{0})};
  PENSTOCK_CHECK(out.ranks >= 0 && out.ranks <= 1 << 20, where, ": ranks is out of range");
  if (line.contains("rank_seconds")) {
    const auto seconds = field_of<LoggedSpread>(line, "rank_seconds", where);
    PENSTOCK_CHECK(seconds.rank >= 0 && seconds.rank < out.ranks, where,
                   ": rank_seconds names a rank that there is not");
    PENSTOCK_CHECK(seconds.by_rank.empty() || std::ssize(seconds.by_rank) == out.ranks, where,
                   ": rank_seconds is not of ", out.ranks, " ranks");
    out.slowest.resize(static_cast<std::size_t>(out.ranks));
    out.slowest[static_cast<std::size_t>(seconds.rank)] = 1;
    out.seconds = seconds.by_rank;
  }
  if (line.contains("rank_load"))
    out.load = field_of<LoggedSpread>(line, "rank_load", where).by_rank;
  return out;
}

/// Adds `values` to `sums`. REQUIRES: equal lengths, or one of the two is empty.
void add_to(std::vector<double>& sums, const std::vector<double>& values) {
  if (sums.empty()) sums.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
}

void divide(std::vector<double>& sums, double by) {
  for (double& sum : sums) sum /= by;
}

}  // namespace

bool RankReader::goes_on(const RankFigures& line) const {
  const auto alike = [](const std::vector<double>& a, const std::vector<double>& b) {
    return a.empty() || b.empty() || a.size() == b.size();
  };
  return line.ranks == sums_.ranks && alike(line.seconds, sums_.seconds) &&
         alike(line.load, sums_.load);
}

void RankReader::add(const nlohmann::json& line, const std::string& where) {
  const RankFigures found = figures_in(line, where);
  if (!goes_on(found)) *this = {};
  if (found.ranks < 2) return;
  sums_.ranks = found.ranks;
  step_seconds_ += field_of(line, "step_seconds", where, 0.0);
  communication_ += field_of(line, "communication_seconds", where, 0.0);
  add_to(sums_.slowest, found.slowest);
  add_to(sums_.seconds, found.seconds);
  add_to(sums_.load, found.load);
  timed_ += line.contains("rank_seconds");
  loaded_ += line.contains("rank_load");
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
