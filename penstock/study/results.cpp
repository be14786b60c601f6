#include "penstock/study/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "penstock/base/atomic_files.h"
#include "penstock/io/json_text.h"
#include "penstock/study/compute.h"
#include "penstock/study/json_field.h"
#include "penstock/study/measurement.h"

namespace penstock::study {
namespace {

using nlohmann::json;

constexpr const char* kStudyFormat = "penstock-study";
constexpr const char* kRowsFormat = "penstock-rows";
constexpr int kVersion = 1;

json parse_file(const std::string& path, const char* format) {
  std::ifstream in(path, std::ios::binary);
  PENSTOCK_CHECK(in, path, ": cannot be opened; check the path");
  json object = json::parse(in, nullptr, false);
  PENSTOCK_CHECK(!object.is_discarded() && object.is_object(), path, ": is not a JSON object");
  PENSTOCK_CHECK(object.value("format", json()) == format, path, ": is not a ", format, " file");
  PENSTOCK_CHECK(object.value("version", json()) == kVersion, path, ": has version ",
                 object.value("version", json()).dump(), "; this program reads version ", kVersion);
  return object;
}

std::vector<RunRow> rows_from_json(const json& object, const std::string& where) {
  PENSTOCK_CHECK(object.contains("rows") && object["rows"].is_array(), where, ": has no rows");
  std::vector<RunRow> rows;
  for (const auto& row : object["rows"]) rows.push_back(row_from_json(row, where));
  return rows;
}

json rows_to_json(std::span<const RunRow> rows) {
  json out = json::array();
  for (const auto& row : rows) out.push_back(to_json(row));
  return out;
}

std::optional<double> positive(double value) {
  return value > 0 ? std::optional(value) : std::nullopt;
}

std::optional<double> active_experts(const RunRow& row) {
  if (row.validation && row.validation->active_experts()) return row.validation->active_experts();
  const auto curve = row.curves.find("active_experts");
  if (curve == row.curves.end() || curve->second.values.empty()) return std::nullopt;
  return curve->second.values.back();
}

/// By these three a run is known between sittings; of rows and of diverged runs.
auto key_of(const auto& run) { return std::tie(run.variant, run.seed, run.config_hash); }

std::vector<DivergedRun> diverged_in(const json& object, const std::string& where) {
  return field_of<std::vector<DivergedRun>>(object, "diverged", where);
}

/// The figures of a summary that are spreads over its rows, by their names in results.json.
struct SummaryFigure {
  const char* name;
  Spread VariantSummary::*spread;
  Figure of;
};

const std::vector<SummaryFigure>& summary_figures() {
  using V = VariantSummary;
  using Row = const RunRow&;
  using Value = std::optional<double>;
  static const std::vector<SummaryFigure> figures{
      {"validation_loss", &V::validation_loss,
       [](Row r) { return r.validation ? Value(r.validation->loss) : Value(); }},
      {"bits_per_byte", &V::bits_per_byte,
       [](Row r) { return r.validation ? positive(r.validation->bits_per_byte) : Value(); }},
      {"test_loss", &V::test_loss, [](Row r) { return r.test ? Value(r.test->loss) : Value(); }},
      {"active_experts", &V::active_experts, active_experts},
      {"tokens_per_second", &V::tokens_per_second,
       [](Row r) { return positive(r.tokens_per_second); }},
      {"share_of_peak", &V::share_of_peak, [](Row r) { return positive(r.share_of_peak); }},
      {"peak_bytes", &V::peak_bytes, [](Row r) { return positive(r.peak_bytes); }},
      {"steps", &V::steps, [](Row r) { return Value(r.steps); }},
      {"total_flops", &V::total_flops, [](Row r) { return positive(r.total_flops); }},
      {"settled_step", &V::settled_step, [](Row r) { return Value(r.stages.settled); }},
  };
  return figures;
}

}  // namespace

Spread spread_of(const VariantSummary& variant, const Figure& figure) {
  std::vector<double> values;
  for (const RunRow* row : variant.rows)
    if (const auto found = figure(*row)) values.push_back(*found);
  return spread(values);
}

Spread sparsifying_step(const VariantSummary& variant) {
  return spread_of(variant,
                   [](const RunRow& row) { return std::optional<double>(row.stages.sparsifying); });
}

std::optional<PairedDifference> difference_of(const VariantSummary& one,
                                              const VariantSummary& other, const Figure& figure) {
  std::vector<double> a, b;
  for (const RunRow* first : one.rows)
    for (const RunRow* second : other.rows) {
      if (first->seed != second->seed) continue;
      const auto mine = figure(*first), theirs = figure(*second);
      if (!mine || !theirs) continue;
      a.push_back(*mine);
      b.push_back(*theirs);
    }
  return a.empty() ? std::nullopt : std::optional(paired_difference(a, b));
}

const VariantSummary* lowest(Variants variants,
                             const std::function<Spread(const VariantSummary&)>& value) {
  if (variants.size() < 2) return nullptr;
  const VariantSummary* best = nullptr;
  for (const auto& variant : variants)
    if (variant.causal && value(variant).count > 0 &&
        (!best || value(variant).mean < value(*best).mean))
      best = &variant;
  return best;
}

std::vector<VariantSummary> summarize(std::span<const RunRow> rows) {
  std::vector<VariantSummary> variants;
  for (const auto& row : rows) {
    auto it = std::ranges::find(variants, row.variant, &VariantSummary::name);
    if (it == variants.end())
      it = variants.insert(variants.end(), {.name = row.variant, .label = row.label});
    it->rows.push_back(&row);
  }
  for (auto& v : variants) {
    v.causal = std::ranges::all_of(v.rows, &RunRow::causal);
    v.by_thresholds = std::ranges::any_of(v.rows, &RunRow::by_thresholds);
    if (!v.causal) v.label += " (not causal)";
    if (v.by_thresholds) v.label += " (by thresholds)";
    for (const auto& figure : summary_figures()) v.*figure.spread = spread_of(v, figure.of);
    v.steered = static_cast<std::size_t>(
        std::ranges::count_if(v.rows, [](const RunRow* r) { return r->steered(); }));
  }
  return variants;
}

namespace {

/// Nothing where they share no seed.
std::optional<PairedComparison> compared(const VariantSummary& one, const VariantSummary& other) {
  const auto difference = difference_of(one, other, summary_figures().front().of);
  if (!difference) return std::nullopt;
  const bool stated = one.total_flops.count > 0 && other.total_flops.count > 0;
  return PairedComparison{one.label, other.label, *difference,
                          stated ? one.total_flops.mean / other.total_flops.mean : 0};
}

}  // namespace

Cell difference_cell(const PairedDifference& paired) {
  const double mean = paired.difference.mean;
  if (!paired.half_width) return {fmt::format("{:+.4f}", mean), "one seed"};
  return {fmt::format("{:+.4f}", mean),
          fmt::format("{:+.4f} to {:+.4f}", mean - *paired.half_width, mean + *paired.half_width)};
}

std::vector<PairedComparison> compare_pairs(std::span<const VariantSummary> variants) {
  std::vector<PairedComparison> out;
  for (std::size_t i = 0; i < variants.size(); ++i)
    for (std::size_t j = i + 1; j < variants.size(); ++j)
      if (auto pair = compared(variants[i], variants[j])) out.push_back(std::move(*pair));
  return out;
}

std::vector<PairedComparison> shown_pairs(std::span<const VariantSummary> variants,
                                          const Comparison& comparison) {
  constexpr std::size_t kMostInPairs = 5;
  const auto reference = std::ranges::find(variants, comparison.reference, &VariantSummary::name);
  if (variants.size() <= kMostInPairs || reference == variants.end())
    return compare_pairs(variants);
  std::vector<PairedComparison> out;
  for (const VariantSummary& variant : variants)
    if (&variant != &*reference)
      if (auto pair = compared(variant, *reference)) out.push_back(std::move(*pair));
  return out;
}

json to_json(const StudyResults& results) {
  const auto variants = summarize(results.rows);
  json summary = json::array(), paired = json::array();
  for (const auto& v : variants) {
    summary.push_back({{"variant", v.name}, {"label", v.label}, {"causal", v.causal}});
    for (const auto& figure : summary_figures())
      summary.back()[figure.name] = to_json(v.*figure.spread);
  }
  for (const auto& pair : compare_pairs(variants)) {
    json object = {{"first", pair.first},
                   {"second", pair.second},
                   {"compute", pair.compute > 0 ? json(pair.compute) : json()}};
    object.update(to_json(pair.difference));
    paired.push_back(std::move(object));
  }
  json out = {{"format", kStudyFormat},
              {"version", kVersion},
              {"name", results.name},
              {"title", results.title},
              {"claim", results.claim},
              {"scale", results.scale},
              {"command", results.command},
              {"planned_runs", results.planned_runs},
              {"compute_ratio", compute_ratio(variants)},
              {"summary", summary},
              {"paired", paired},
              {"rows", rows_to_json(results.rows)}};
  out.update(to_json(results.comparison));
  for (const auto& one : plain_measurements())
    out.update(one->summary(results.rows, results.comparison));
  if (!results.diverged.empty()) out["diverged"] = write_json(results.diverged);
  for (const auto& table : results.tables) out["tables"].push_back(to_json(table));
  return out;
}

StudyResults results_from_json(const json& object, const std::string& where) {
  const auto text = [&](const char* name, const char* otherwise = "") {
    return field_of<std::string>(object, name, where, otherwise);
  };
  StudyResults out{.name = text("name", "study"),
                   .title = text("title"),
                   .claim = text("claim"),
                   .scale = text("scale"),
                   .command = text("command"),
                   .planned_runs = field_of<std::int64_t>(object, "planned_runs", where),
                   .comparison = read_json<Comparison>(object, where),
                   .rows = rows_from_json(object, where),
                   .diverged = diverged_in(object, where)};
  for (const auto& table : object.value("tables", json::array()))
    out.tables.push_back(table_from_json(table, where + ": tables"));
  return out;
}

void write_results(const StudyResults& results, const std::string& path) {
  write_file_atomically(real_file_system(), path, readable_text(to_json(results)));
}

StudyResults read_results(const std::string& path) {
  return results_from_json(parse_file(path, kStudyFormat), path);
}

KeptRuns read_kept_runs(const std::string& path) {
  if (!std::filesystem::exists(path)) return {};
  const json object = parse_file(path, kRowsFormat);
  return {.rows = rows_from_json(object, path), .diverged = diverged_in(object, path)};
}

void merge_kept_runs(const std::string& path, const KeptRuns& runs) {
  KeptRuns kept = read_kept_runs(path);
  const auto forget = [&](const auto& run) {
    const auto same = [&](const auto& old) { return key_of(old) == key_of(run); };
    std::erase_if(kept.rows, same);
    std::erase_if(kept.diverged, same);
  };
  for (const auto& row : runs.rows) {
    if (!row.finished) continue;
    forget(row);
    kept.rows.push_back(row);
  }
  for (const auto& run : runs.diverged) {
    forget(run);
    kept.diverged.push_back(run);
  }
  const auto by_key = [](const auto& a, const auto& b) { return key_of(a) < key_of(b); };
  std::ranges::sort(kept.rows, by_key);
  std::ranges::sort(kept.diverged, by_key);
  json object = {{"format", kRowsFormat}, {"version", kVersion}, {"rows", rows_to_json(kept.rows)}};
  if (!kept.diverged.empty()) object["diverged"] = write_json(kept.diverged);
  write_file_atomically(real_file_system(), path, readable_text(object));
}

}  // namespace penstock::study
