// The section of a run's page about the processes that trained it.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "penstock/report/sections.h"

namespace penstock::report {

using namespace study;

namespace {

// If the log has no seconds of each rank, the table shows at most this number of ranks: those that
// were most often the slowest.
constexpr std::size_t kShownRanks = 16;

/// Whether the log has the seconds of each rank. It has them if there are few ranks.
bool timed(const RankFigures& figures) { return figures.seconds.size() == figures.slowest.size(); }

/// The ranks that have a row: all ranks if timed(), or else those that were most often the slowest.
std::vector<std::size_t> shown_ranks(const RankFigures& figures) {
  std::vector<std::size_t> out(figures.slowest.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  if (timed(figures)) return out;
  std::erase_if(out, [&](std::size_t rank) { return figures.slowest[rank] == 0; });
  std::ranges::stable_sort(out, std::greater<>(),
                           [&](std::size_t r) { return figures.slowest[r]; });
  if (out.size() > kShownRanks) out.resize(kShownRanks);
  return out;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Table by_rank(const RankFigures& figures) {
  const bool seconds = timed(figures);
  Table out{.columns = {{"process", "its rank"}}};
  if (seconds) {
    out.columns.push_back({"computing",
                           "mean of a step's passes, forward and backward, without "
                           "waiting for others"});
    out.columns.push_back({"÷ mean", "of all processes"});
  }
  out.columns.push_back({"slowest in", "share of the steps in which it computed the longest"});
  const double mean = seconds ? mean_of(figures.seconds) : 0;
  for (const std::size_t rank : shown_ranks(figures)) {
    TableRow row{.cells = {fmt::to_string(rank)}};
    if (seconds) {
      row.cells.emplace_back(fmt::format("{:.3g} s", figures.seconds[rank]));
      row.cells.emplace_back(mean > 0 ? fmt::format("{:.2f}", figures.seconds[rank] / mean) : "–");
    }
    row.cells.emplace_back(fmt::format("{:.0f} %", 100 * figures.slowest[rank]));
    out.rows.push_back(std::move(row));
  }
  return out;
}

Table by_experts(const RankFigures& figures) {
  Table out{.title = "Assignments by the processes that divide the experts",
            .columns = {{"share of the experts", "consecutive ones of every layer"},
                        {"assignments", "over all layers and steps, ÷ an even share"}}};
  for (std::size_t i = 0; i < figures.load.size(); ++i)
    out.rows.push_back({.cells = {fmt::format("{} of {}", i + 1, figures.load.size()),
                                  fmt::format("{:.2f}", figures.load[i])}});
  return out;
}

}  // namespace

Section rank_section(const RunRow& run) {
  Section out{.title = "Processes"};
  if (!run.ranks) return out;
  const RankFigures& figures = *run.ranks;
  std::string said = fmt::format(
      "{} processes; {:.1f} % of the steps' time went to the exchange "
      "between them, with waiting.",
      figures.ranks, 100 * figures.communication);
  if (!figures.slowest.empty()) {
    const auto most = std::ranges::max_element(figures.slowest);
    said += fmt::format(" Process {} was the slowest most often, in {:.0f} % of the steps.",
                        most - figures.slowest.begin(), 100 * *most);
    out.tables.push_back(by_rank(figures));
  }
  if (!figures.load.empty()) out.tables.push_back(by_experts(figures));
  out.remarks = {{said}};
  return out;
}

}  // namespace penstock::report
