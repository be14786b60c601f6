// The tables of a study's or a run's results.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "penstock/report/result_columns.h"
#include "penstock/report/sections.h"
#include "penstock/study/runs/equal_compute.h"
#include "penstock/study/runs/pair_comparison.h"
#include "penstock/study/runs/stages.h"
#include "penstock/study/tables/by_k_summary.h"
#include "penstock/study/tables/published_figures.h"

namespace penstock::report {

using namespace study;

namespace {

Spread domain_loss(const VariantSummary& variant, const std::string& domain) {
  return spread_of(variant, [&](const RunRow& row) -> std::optional<double> {
    if (!row.validation) return std::nullopt;
    const auto it = row.validation->by_domain.find(domain);
    return it == row.validation->by_domain.end() ? std::nullopt : std::optional(it->second.loss);
  });
}

std::string setting(const VariantSummary& variant, const std::string& key) {
  const auto& settings = variant.rows[0]->settings;
  const auto it = settings.find(key);
  return it == settings.end() ? "–" : it->second;
}

/// Adds rows of settings. With `equal`, these are the keys with equal values in all variants, with
/// one value column. Without, these are the other keys.
void add_settings(Table& table, Variants variants, bool equal) {
  std::set<std::string> keys;
  for (const auto& variant : variants)
    for (const auto& [key, value] : variant.rows[0]->settings) keys.insert(key);
  for (const auto& key : keys) {
    const bool by_nature = key == "name" || key == "description" || key == "train.seed";
    if (by_nature && variants.size() > 1) continue;
    TableRow row{.cells = {key}};
    std::set<std::string> values;
    for (const auto& variant : variants)
      values.insert(row.cells.emplace_back(setting(variant, key)).text);
    if ((values.size() == 1) != equal) continue;
    if (equal) row.cells.resize(2);
    table.rows.push_back(std::move(row));
  }
}

TableColumn variant_column(Variants variants, std::size_t i) {
  TableColumn out(variants[i].label);
  out.variant = i;
  return out;
}

std::size_t diverged_runs(const StudyResults& results, const std::string& variant) {
  return static_cast<std::size_t>(
      std::ranges::count(results.diverged, variant, &DivergedRun::variant));
}

/// "3", or "2, 1 diverged".
Cell seeds_cell(std::size_t finished, std::size_t diverged) {
  return {fmt::to_string(finished), diverged > 0 ? fmt::format("+ {} diverged", diverged) : ""};
}

Table results_table(Variants variants, const StudyResults& results) {
  const bool comparable = may_be_tinted(variants, results.comparison);
  const auto columns = filled_columns(variants);
  Table out{.columns = {"variant", {"seeds", "runs"}}, .look = "results"};
  for (const auto& column : columns)
    out.columns.emplace_back(column.title, column.explanation, column.rank);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    TableRow& row = out.rows.emplace_back();
    row.variant = i;
    row.cells = {variants[i].label,
                 seeds_cell(variants[i].rows.size(), diverged_runs(results, variants[i].name))};
    for (const auto& column : columns) {
      row.cells.push_back(column.cell(variants[i]));
      row.cells.back().best =
          comparable && column.lower_is_better && lowest(variants, column.value) == &variants[i];
    }
  }
  std::set<std::string> shown;
  for (const auto& run : results.diverged) {
    if (std::ranges::find(variants, run.variant, &VariantSummary::name) != variants.end() ||
        !shown.insert(run.variant).second)
      continue;
    TableRow& row = out.rows.emplace_back();
    row.cells = {run.label, seeds_cell(0, diverged_runs(results, run.variant))};
    row.cells.resize(out.columns.size(), "–");
  }
  return out;
}

/// The number of common seeds: "3", or "2 of 3" if some variant has others.
std::string common_seeds(const PairComparison& pair) {
  const std::size_t common = pair.seeds.size();
  return common == pair.all_seeds ? fmt::to_string(common)
                                  : fmt::format("{} of {}", common, pair.all_seeds);
}

Cell difference_or_dash(const std::optional<PairedDifference>& paired) {
  return paired ? difference_cell(*paired) : Cell("–");
}

/// In how many pairs of seeds the first is lower, or why the differences tell no order.
Cell order_cell(const PairComparison& pair) {
  if (!pair.no_order.empty() || !pair.validation_loss) return {"–", pair.no_order};
  const PairedDifference& paired = *pair.validation_loss;
  return fmt::format("{} of {}", paired.lower, paired.difference.count);
}

/// The pairs that have a common seed; the note names the others. Without a column of test losses
/// if no pair has any.
Table differences_table(const std::string& title, const std::vector<PairComparison>& pairs) {
  const auto tested = [](const PairComparison& pair) { return pair.test_loss.has_value(); };
  const bool with_test = std::ranges::any_of(pairs, tested);
  Table out{.title = title,
            .columns = {"first − second",
                        {"seeds", "that every compared variant has, of those that any has"},
                        "validation loss"},
            .look = "pairs"};
  if (with_test) out.columns.push_back({"test loss", "", 1});
  out.columns.push_back(
      {"first is lower",
       "in how many seeds its validation loss is lower, or why that tells no order", 2});
  out.columns.push_back({"compute, first ÷ second", "", 3});
  for (const PairComparison& pair : pairs) {
    if (pair.seeds.empty()) {
      out.note += (out.note.empty() ? "without a common seed: " : "; ") + pair.label;
      continue;
    }
    auto& cells = out.rows.emplace_back().cells;
    cells = {pair.label, common_seeds(pair), difference_or_dash(pair.validation_loss)};
    if (with_test) cells.push_back(difference_or_dash(pair.test_loss));
    cells.push_back(order_cell(pair));
    cells.emplace_back(pair.compute > 0 ? ratio_text(pair.compute) : "–");
  }
  return out;
}

}  // namespace

Section results_section(Variants variants, const StudyResults& results) {
  const Comparison& comparison = results.comparison;
  Section out{
      .tables = {
          results_table(variants, results),
          differences_table("differences, seed by seed: means with their 95 % intervals",
                            compare_shown(variants, comparison)),
          differences_table("differences of pairs, seed by seed: means with their 95 % intervals",
                            compare_chosen(variants, comparison))}};
  for (const auto& run : results.diverged)
    out.remarks.push_back(
        {fmt::format("diverged: {}, seed {}: {}", run.label, run.seed, run.reason), Tone::warning});
  if (const std::string difference = compute_difference(variants); !difference.empty())
    out.remarks.push_back({difference + ": the losses are no order of the variants, and none is "
                                        "marked as the best; report.html draws them over FLOPs, "
                                        "tokens and seconds",
                           Tone::warning});
  if (std::string uncounted = uncounted_compute(variants, comparison); !uncounted.empty())
    out.remarks.push_back({std::move(uncounted)});
  return out;
}

Table figures_table(const VariantSummary& run) {
  Table out{.columns = {"", "value", "what it is"}, .look = "figures"};
  for (const auto& column : filled_columns(std::span(&run, 1)))
    out.rows.push_back({{column.title, column.cell(run).whole(), column.explanation}});
  return out;
}

Table stage_table(Variants variants) {
  Table out{.title = "ReMoE’s stages",
            .note = std::string(kStageRule) +
                    " Time: that of the steps, by the clock; the share is of stages I and II.",
            .columns = {"", "stage II begins", "stage III begins", "stage I, s", "stage II, s",
                        "stage III, s", "share of the time"}};
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const Spread begins = sparsifying_step(variants[i]);
    if (begins.count == 0) continue;
    TableRow& row = out.rows.emplace_back();
    row.cells = {variants[i].label, spread_cell(begins, fixed(0)).whole(),
                 settled_cell(variants[i]).whole()};
    // `value` gets the hours of the three stages and of the whole run.
    const auto timed = [&](const auto& value, const std::function<std::string(double)>& format) {
      const auto figure = [&](const RunRow& run) -> std::optional<double> {
        const auto hours = stage_hours(run, run.stages);
        return hours ? std::optional(value(*hours)) : std::nullopt;
      };
      row.cells.push_back(spread_cell(spread_of(variants[i], figure), format));
    };
    for (std::size_t stage = 0; stage < 3; ++stage)
      timed([stage](const std::vector<double>& hours) { return 3600 * hours[stage]; }, fixed(1));
    timed([](const std::vector<double>& hours) { return 100 * (1 - hours[2] / hours[3]); },
          [](double share) { return fmt::format("{:.1f} %", share); });
  }
  return out;
}

Table regulariser_table(Variants variants) {
  Table out{.title = "Regulariser by stage",
            .note =
                "Means over each stage’s steps of L_reg, the regulariser before its weight, "
                "and of λ·L_reg, what is added to the cross-entropy: ReMoE’s Figure 4.",
            .columns = {"", "L_reg, stage I", "II", "III", "λ·L_reg, stage I", "II", "III"}};
  const auto plain = [](double value) { return fmt::format("{:.3g}", value); };
  for (const auto& variant : variants) {
    if (std::ranges::none_of(variant.rows,
                             [](const RunRow* r) { return r->regulariser.has_value(); }))
      continue;
    TableRow& row = out.rows.emplace_back();
    row.cells = {variant.label};
    for (const auto means : {&StageRegulariser::unweighted, &StageRegulariser::weighted})
      for (const auto stage : {&StageMeans::first, &StageMeans::second, &StageMeans::third}) {
        const auto figure = [&](const RunRow& run) {
          return run.regulariser ? (*run.regulariser).*means.*stage : std::nullopt;
        };
        row.cells.push_back(spread_cell(spread_of(variant, figure), plain));
      }
  }
  return out;
}

Table layer_sparsity_table(Variants variants) {
  Table out{.title = "Sparsity by layer",
            .note = fmt::format(
                "Mean ± standard deviation over the steps after the first {}{}: ReMoE’s Figure 3.",
                LayerSparsity::kWarmUp, one_run(variants) ? "" : ", of each variant’s first seed"),
            .columns = {""}};
  std::vector<std::map<std::int64_t, Cell>> cells;  // by row and number of the layer
  std::set<std::int64_t> layers;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const RunRow& run = *variants[i].rows[0];
    if (!run.steered() || !run.sparsity_by_layer) continue;
    out.rows.push_back({.cells = {variants[i].label}, .variant = i});
    auto& by_layer = cells.emplace_back();
    for (std::size_t l = 0; l < run.sparsity_by_layer->mean.size(); ++l) {
      const std::int64_t layer = *layers.insert(run.model_layer(l)).first;
      by_layer[layer] = {fixed(4)(run.sparsity_by_layer->mean[l]),
                         fmt::format("± {:.4f}", run.sparsity_by_layer->sd[l])};
    }
  }
  for (const std::int64_t layer : layers) {
    out.columns.emplace_back(fmt::format("layer {}", layer));
    for (std::size_t row = 0; row < out.rows.size(); ++row)
      out.rows[row].cells.push_back(cells[row].contains(layer) ? cells[row][layer] : Cell("–"));
  }
  return out;
}

std::vector<std::string> measured_domains(Variants variants) {
  std::set<std::string> names;
  for (const auto& variant : variants)
    for (const RunRow* row : variant.rows)
      if (row->validation)
        for (const auto& [name, loss] : row->validation->by_domain) names.insert(name);
  if (names.size() < 2) names.clear();
  return {names.begin(), names.end()};
}

Table domain_table(Variants variants, const Comparison& comparison) {
  Table out{.columns = {"domain"}};
  const bool comparable = may_be_tinted(variants, comparison);
  for (std::size_t i = 0; i < variants.size(); ++i)
    out.columns.push_back(variant_column(variants, i));
  for (const auto& domain : measured_domains(variants)) {
    const auto value = [&](const VariantSummary& v) { return domain_loss(v, domain); };
    TableRow& row = out.rows.emplace_back();
    row.cells = {domain};
    for (const auto& variant : variants) {
      row.cells.push_back(spread_cell(value(variant), fixed(4)));
      row.cells.back().best = comparable && lowest(variants, value) == &variant;
    }
  }
  return out;
}

Table differing_settings(Variants variants) {
  Table out{.title = "Where the variants differ", .columns = {"key"}, .look = "settings"};
  for (std::size_t i = 0; i < variants.size(); ++i)
    out.columns.push_back(variant_column(variants, i));
  add_settings(out, variants, /*equal=*/false);
  return out;
}

Table shared_settings(Variants variants) {
  Table out{.title = variants.size() > 1 ? "What they share" : "All settings",
            .columns = {"key", "value"},
            .look = "settings",
            .folded = variants.size() > 1};
  if (!variants.empty()) add_settings(out, variants, /*equal=*/true);
  return out;
}

Table runs_table(const StudyResults& results) {
  Table out{.title = "Runs and their configuration hashes",
            .columns = {"variant", "seed", "steps", "hours", "date", "hash"},
            .folded = true};
  if (results.rows.size() == 1) return out;
  for (const auto& row : results.rows)
    out.rows.push_back({{row.label, fmt::to_string(row.seed), fmt::to_string(row.steps),
                         fixed(2)(row.seconds / 3600), row.finished_at, row.config_hash}});
  return out;
}

}  // namespace penstock::report
