// Makes tables of published figures beside the measured ones. Measurements show some published
// figures in their own sections, and these are not here.
#include <cmath>

#include "penstock/report/sections.h"
#include "penstock/study/tables/published_figures.h"

namespace penstock::report {

using namespace study;

namespace {

/// Loss, perplexity and bits per byte of the test split, beside the paper's result.
Table result_table(Variants variants, const Comparison& comparison) {
  Table table{.columns = {"variant", "loss", "perplexity", "bits per byte",
                          "published: " + comparison.published_as}};
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const auto cell = [&](auto value) {
      const auto figure = [&](const RunRow& row) -> std::optional<double> {
        const auto& measured = row.test ? row.test : row.validation;
        return measured ? std::optional(value(*measured)) : std::nullopt;
      };
      return spread_cell(spread_of(variants[i], figure), fixed(4));
    };
    table.rows.push_back(
        {.cells = {variants[i].label, cell([](const Evaluation& e) { return e.loss; }),
                   cell([](const Evaluation& e) { return std::exp(e.loss); }),
                   cell([](const Evaluation& e) { return e.bits_per_byte; }),
                   number_or_dash(published_number(comparison, variants[i].name, "result"))},
         .variant = i});
  }
  return table;
}

}  // namespace

std::optional<Section> published_results(Variants variants, const Comparison& comparison) {
  if (variants.empty()) return std::nullopt;
  Section out{.title = "Beside the published results"};
  if (!comparison.published_as.empty()) {
    out.tables.push_back(result_table(variants, comparison));
    out.note =
        "The test split, or validation where there is no other; mean ± standard deviation over "
        "seeds. What is published was measured otherwise.";
  }
  for (Table table :
       {published_losses(variants, comparison), published_hours(variants, comparison)})
    if (!table.rows.empty()) out.tables.push_back(std::move(table));
  return out.tables.empty() ? std::nullopt : std::optional(std::move(out));
}

}  // namespace penstock::report
