#include "penstock/study/tables/published_figures.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "penstock/study/config/published_names.h"

namespace penstock::study {
namespace {

constexpr double kSecondsPerHour = 3600;

/// Whether the paper has any of the `names` for any variant.
template <std::size_t N>
bool any_published(const Comparison& comparison, const std::array<std::string_view, N>& names) {
  return std::ranges::any_of(comparison.published, [&](const auto& of_variant) {
    return std::ranges::any_of(names, [&](std::string_view name) {
      return of_variant.second.contains(std::string(name));
    });
  });
}

/// Adds our row, and beneath it the paper's row if the paper has a number.
template <std::size_t N>
void add_rows(Table& table, std::size_t index, TableRow ours, const Comparison& comparison,
              const std::string& variant, const std::array<std::string_view, N>& names) {
  ours.variant = index;
  table.rows.push_back(std::move(ours));
  TableRow paper{.cells = {"paper"}, .beneath = true};
  bool any = false;
  for (const std::string_view name : names) {
    const auto number = published_number(comparison, variant, std::string(name));
    any |= number.has_value();
    paper.cells.emplace_back(number_or_dash(number));
  }
  if (any) table.rows.push_back(std::move(paper));
}

/// Seconds until the end of `step`, interpolated between the curve's points; no value after the
/// last point.
std::optional<double> seconds_at(const Curve& curve, double step) {
  const auto next = std::ranges::lower_bound(curve.steps, step);
  if (next == curve.steps.end()) return std::nullopt;
  const auto i = static_cast<std::size_t>(next - curve.steps.begin());
  if (curve.steps[i] == step) return curve.values[i];
  const double from = i == 0 ? 0 : curve.steps[i - 1], begun = i == 0 ? 0 : curve.values[i - 1];
  return begun + (curve.values[i] - begun) * (step - from) / (curve.steps[i] - from);
}

/// The stages of the row. If the run does not steer its sparsity, they are those of the first run
/// with the same seed that settled.
std::optional<Stages> borders_for(const RunRow& row, Variants variants) {
  const auto complete = [](const RunRow& one) {
    return one.stages.sparsifying && one.stages.settled;
  };
  if (complete(row)) return row.stages;
  if (row.steered()) return std::nullopt;  // it never settled
  for (const auto& variant : variants)
    for (const RunRow* other : variant.rows)
      if (other->seed == row.seed && complete(*other)) return other->stages;
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<double>> stage_hours(const RunRow& row, const Stages& borders) {
  const auto curve = row.curves.find("seconds");
  if (curve == row.curves.end() || curve->second.steps.empty() || !borders.sparsifying ||
      !borders.settled)
    return std::nullopt;
  // A stage begins with its first step. The stages before it end with the previous step.
  const auto second = seconds_at(curve->second, static_cast<double>(*borders.sparsifying - 1)),
             third = seconds_at(curve->second, static_cast<double>(*borders.settled - 1));
  if (!second || !third) return std::nullopt;
  const double all = curve->second.values.back();
  std::vector<double> out = {*second, *third - *second, all - *third, all};
  for (double& value : out) value /= kSecondsPerHour;
  return out;
}

Table published_losses(Variants variants, const Comparison& comparison) {
  Table out{.columns = {"variant", "validation loss", "settled at step"}};
  if (!any_published(comparison, kPublishedLosses)) return out;
  for (std::size_t i = 0; i < variants.size(); ++i)
    add_rows(out, i,
             {.cells = {variants[i].label, spread_cell(variants[i].validation_loss, fixed(4)),
                        spread_cell(variants[i].settled_step, fixed(0))}},
             comparison, variants[i].name, kPublishedLosses);
  return out;
}

Table published_hours(Variants variants, const Comparison& comparison) {
  Table out{.title = "hours by stage",
            .columns = {"variant", "stage I", "stage II", "stage III", "in all"}};
  if (!any_published(comparison, kPublishedHours)) return out;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    TableRow ours{.cells = {variants[i].label}};
    for (std::size_t h = 0; h < kPublishedHours.size(); ++h) {
      const auto figure = [&](const RunRow& row) -> std::optional<double> {
        const auto borders = borders_for(row, variants);
        const auto hours = borders ? stage_hours(row, *borders) : std::nullopt;
        return hours ? std::optional((*hours)[h]) : std::nullopt;
      };
      ours.cells.push_back(spread_cell(spread_of(variants[i], figure), fixed(4)));
    }
    add_rows(out, i, std::move(ours), comparison, variants[i].name, kPublishedHours);
  }
  return out;
}

}  // namespace penstock::study
