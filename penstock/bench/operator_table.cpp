#include "penstock/bench/operator_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

std::vector<OperatorRow> mean_rows(const std::vector<ProfiledStep>& steps, std::size_t first,
                                   std::size_t last, ops::ProfileEntries ProfiledStep::*entries) {
  std::map<std::string, OperatorRow> sums;
  for (std::size_t i = first; i < last; ++i)
    for (const auto& [name, entry] : steps[i].*entries) {
      OperatorRow& row = sums[name];
      row.name = name;
      row.calls += static_cast<double>(entry.calls);
      row.seconds += entry.seconds;
      row.flops += entry.flops;
      row.bytes += entry.bytes;
      row.bf16_flops += entry.bf16_flops;
    }
  std::vector<OperatorRow> rows;
  const auto count = static_cast<double>(last - first);
  for (const auto& [name, sum] : sums)
    rows.push_back({sum.name, sum.calls / count, sum.seconds / count, sum.flops / count,
                    sum.bytes / count, sum.bf16_flops / count});
  std::ranges::sort(rows, std::greater(), &OperatorRow::seconds);
  return rows;
}

/// The rows of the operators, most lost time first.
std::vector<OperatorRow> by_loss(const OperatorTable& table, const MachineLimits& machine) {
  std::vector<OperatorRow> rows = table.operators;
  std::ranges::sort(rows, std::greater(),
                    [&](const OperatorRow& row) { return row.lost_seconds(machine); });
  return rows;
}

double rate(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

std::string row_text(const OperatorRow& row, double step, const MachineLimits& machine) {
  return fmt::format(
      "{:<34} {:>6.0f} {:>9.3f} {:>6.1f}% {:>8.3f} {:>9.1f} {:>8.1f} {:>6.1f}% "
      "{:>9.3f} {:>9.3f}\n",
      row.name, row.calls, 1e3 * row.seconds, 100 * row.seconds / step, row.flops / 1e9,
      row.bytes / 1e6, rate(row.flops, row.seconds) / 1e9,
      100 * rate(row.peak_seconds(machine), row.seconds), 1e3 * row.ideal_seconds(machine),
      1e3 * row.lost_seconds(machine));
}

std::string outside_text(const std::string& name, double calls, double seconds, double step) {
  return fmt::format("{:<34} {:>6} {:>9.3f} {:>6.1f}%\n", name,
                     calls > 0 ? fmt::format("{:.0f}", calls) : "", 1e3 * seconds,
                     100 * seconds / step);
}

double sum_of(const std::vector<OperatorRow>& rows, double OperatorRow::*figure) {
  double sum = 0;
  for (const OperatorRow& row : rows) sum += row.*figure;
  return sum;
}

}  // namespace

double OperatorRow::peak_seconds(const MachineLimits& machine) const {
  const bool own = machine.peak_flops_bf16 > 0;
  return rate(flops - bf16_flops, machine.peak_flops) +
         rate(bf16_flops, own ? machine.peak_flops_bf16 : machine.peak_flops);
}

double OperatorRow::ideal_seconds(const MachineLimits& machine) const {
  return std::max(peak_seconds(machine), rate(bytes, machine.memory_bandwidth));
}

double OperatorRow::lost_seconds(const MachineLimits& machine) const {
  return seconds - ideal_seconds(machine);
}

double OperatorTable::operator_seconds() const { return sum_of(operators, &OperatorRow::seconds); }

double OperatorTable::flops() const { return sum_of(operators, &OperatorRow::flops); }

double OperatorTable::peak_seconds(const MachineLimits& machine) const {
  double sum = 0;
  for (const auto& row : operators) sum += row.peak_seconds(machine);
  return sum;
}

OperatorTable make_table(std::vector<ProfiledStep> steps) {
  PENSTOCK_ASSERT(!steps.empty(), "no step was profiled");
  std::ranges::sort(steps, std::less(), &ProfiledStep::seconds);
  const std::size_t first = steps.size() / 4, last = steps.size() - first;
  OperatorTable table;
  for (std::size_t i = first; i < last; ++i) table.seconds += steps[i].seconds;
  table.seconds /= static_cast<double>(last - first);
  table.operators = mean_rows(steps, first, last, &ProfiledStep::operators);
  table.scopes = mean_rows(steps, first, last, &ProfiledStep::scopes);
  return table;
}

ordered_json operators_json(const OperatorTable& table, const MachineLimits& machine) {
  ordered_json out = ordered_json::array();
  for (const auto& row : by_loss(table, machine))
    out.push_back({{"name", row.name},
                   {"calls", row.calls},
                   {"seconds", row.seconds},
                   {"share", row.seconds / table.seconds},
                   {"flops", row.flops},
                   {"bytes", row.bytes},
                   {"flops_per_second", rate(row.flops, row.seconds)},
                   {"share_of_peak", rate(row.peak_seconds(machine), row.seconds)},
                   {"ideal_seconds", row.ideal_seconds(machine)},
                   {"lost_seconds", row.lost_seconds(machine)}});
  return out;
}

ordered_json outside_json(const OperatorTable& table) {
  ordered_json out = ordered_json::array();
  const auto add = [&](const std::string& name, double calls, double seconds) {
    out.push_back({{"name", name},
                   {"calls", calls},
                   {"seconds", seconds},
                   {"share", seconds / table.seconds}});
  };
  for (const auto& row : table.scopes) add(row.name, row.calls, row.seconds);
  add("rest", 0, table.outside_seconds() - sum_of(table.scopes, &OperatorRow::seconds));
  return out;
}

std::string table_text(const OperatorTable& table, const MachineLimits& machine) {
  std::string out = fmt::format("{:<34} {:>6} {:>9} {:>7} {:>8} {:>9} {:>8} {:>7} {:>9} {:>9}\n",
                                "operator/implementation", "calls", "ms", "share", "GFLOP", "MB",
                                "GFLOP/s", "of peak", "ideal ms", "lost ms");
  for (const auto& row : by_loss(table, machine)) out += row_text(row, table.seconds, machine);
  out += outside_text("outside named operators", 0, table.outside_seconds(), table.seconds);
  double rest = table.outside_seconds();
  constexpr std::size_t shown = 20;
  for (std::size_t i = 0; i < std::min(shown, table.scopes.size()); ++i) {
    const OperatorRow& row = table.scopes[i];
    out += outside_text("  " + row.name, row.calls, row.seconds, table.seconds);
    rest -= row.seconds;
  }
  if (!table.scopes.empty()) out += outside_text("  rest", 0, rest, table.seconds);
  return out;
}

}  // namespace penstock::bench
