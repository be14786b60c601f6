// Summaries over seeds and the results' files.
#include "penstock/study/results.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <tuple>

#include "penstock/base/atomic_files.h"
#include "penstock/io/json_text.h"
#include "penstock/study/by_k_summary.h"
#include "penstock/study/compute.h"
#include "penstock/study/json_field.h"

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

json spread_json(const Spread& spread) {
  if (spread.count == 0) return nullptr;
  return {
      {"n", spread.count}, {"mean", spread.mean}, {"sd", spread.sd ? json(*spread.sd) : json()}};
}

json paired_json(const PairedDifference& paired) {
  return {{"difference", spread_json(paired.difference)},
          {"first_lower", paired.lower},
          {"half_width_95", paired.half_width ? json(*paired.half_width) : json()}};
}

/// The figures by k over seeds, as the report shows them.
json by_k_json(std::span<const VariantSummary> variants, const Comparison& comparison) {
  json points = json::array(), differences = json::array();
  for (const auto& variant : variants)
    for (const std::int64_t k : measured_ks(variants))
      if (const Spread quality = quality_at(variant, k, comparison.measure); quality.count > 0)
        points.push_back({{"variant", variant.name},
                          {"k", k > 0 ? json(k) : json()},
                          {comparison.measure, spread_json(quality)},
                          {"flops_per_token", flops_at(variant, k)}});
  for (const auto& one : compare_with_reference(variants, comparison)) {
    json object = {{"variant", one.variant},
                   {"reference", comparison.reference},
                   {"k", one.k > 0 ? json(one.k) : json()}};
    object.update(paired_json(one.difference));
    differences.push_back(std::move(object));
  }
  json under = json::array();
  for (const auto& one : undertrained(variants, comparison)) under.push_back(one.variant);
  return {{"by_k", points}, {"by_k_differences", differences}, {"undertrained", under}};
}

// The spread of whatever `value` finds in the rows.
Spread spread_of(const std::vector<const RunRow*>& rows,
                 const std::function<std::optional<double>(const RunRow&)>& value) {
  std::vector<double> values;
  for (const RunRow* row : rows)
    if (const auto found = value(*row)) values.push_back(*found);
  return spread(values);
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

json diverged_json(std::span<const DivergedRun> runs) {
  json out = json::array();
  for (const auto& run : runs)
    out.push_back({{"variant", run.variant},
                   {"label", run.label},
                   {"seed", run.seed},
                   {"config_hash", run.config_hash},
                   {"reason", run.reason}});
  return out;
}

std::vector<DivergedRun> diverged_from_json(const json& object, const std::string& where) {
  std::vector<DivergedRun> out;
  if (!object.contains("diverged")) return out;
  PENSTOCK_CHECK(object["diverged"].is_array(), where, ": is not a list");
  for (const auto& run : object["diverged"])
    out.push_back({.variant = string_or(run, "variant", "", where),
                   .label = string_or(run, "label", "", where),
                   .seed = static_cast<std::int64_t>(required_number(run, "seed", where)),
                   .config_hash = string_or(run, "config_hash", "", where),
                   .reason = string_or(run, "reason", "", where)});
  return out;
}

}  // namespace

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
    if (!v.causal) v.label += " (not causal)";
    const auto of = [&](auto value) { return spread_of(v.rows, value); };
    v.validation_loss = of([](const RunRow& r) {
      return r.validation ? std::optional(r.validation->loss) : std::nullopt;
    });
    v.bits_per_byte = of([](const RunRow& r) {
      return r.validation ? positive(r.validation->bits_per_byte) : std::nullopt;
    });
    v.test_loss =
        of([](const RunRow& r) { return r.test ? std::optional(r.test->loss) : std::nullopt; });
    v.active_experts = of(active_experts);
    v.tokens_per_second = of([](const RunRow& r) { return positive(r.tokens_per_second); });
    v.share_of_peak = of([](const RunRow& r) { return positive(r.share_of_peak); });
    v.peak_bytes = of([](const RunRow& r) { return positive(r.peak_bytes); });
    v.steps = of([](const RunRow& r) { return std::optional<double>(r.steps); });
    v.total_flops = of([](const RunRow& r) { return positive(r.total_flops); });
    v.settled_step = of([](const RunRow& r) {
      return r.stages.settled ? std::optional<double>(*r.stages.settled) : std::nullopt;
    });
    v.steered = static_cast<std::size_t>(
        std::ranges::count_if(v.rows, [](const RunRow* r) { return r->steered(); }));
  }
  return variants;
}

std::vector<RunRow> by_k_rows(std::span<const RunRow> rows) {
  std::vector<RunRow> out(rows.begin(), rows.end());
  for (const RunRow& row : rows) {
    if (!row.by_k_folded) continue;
    RunRow& folded = out.emplace_back(row);
    folded.variant += "-folded";
    folded.label += ", folded";
    folded.by_k = row.by_k_folded;
  }
  return out;
}

namespace {

/// Nothing where they share no seed.
std::optional<PairedComparison> compared(const VariantSummary& one, const VariantSummary& other) {
  std::vector<double> a, b;
  for (const RunRow* first : one.rows)
    for (const RunRow* second : other.rows)
      if (first->seed == second->seed && first->validation && second->validation) {
        a.push_back(first->validation->loss);
        b.push_back(second->validation->loss);
      }
  if (a.empty()) return std::nullopt;
  const bool stated = one.total_flops.count > 0 && other.total_flops.count > 0;
  return PairedComparison{one.label, other.label, paired_difference(a, b),
                          stated ? one.total_flops.mean / other.total_flops.mean : 0};
}

}  // namespace

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
  for (const auto& v : variants)
    summary.push_back({{"variant", v.name},
                       {"label", v.label},
                       {"causal", v.causal},
                       {"validation_loss", spread_json(v.validation_loss)},
                       {"bits_per_byte", spread_json(v.bits_per_byte)},
                       {"test_loss", spread_json(v.test_loss)},
                       {"active_experts", spread_json(v.active_experts)},
                       {"tokens_per_second", spread_json(v.tokens_per_second)},
                       {"share_of_peak", spread_json(v.share_of_peak)},
                       {"peak_bytes", spread_json(v.peak_bytes)},
                       {"steps", spread_json(v.steps)},
                       {"total_flops", spread_json(v.total_flops)},
                       {"settled_step", spread_json(v.settled_step)}});
  for (const auto& pair : compare_pairs(variants)) {
    json object = {{"first", pair.first},
                   {"second", pair.second},
                   {"compute", pair.compute > 0 ? json(pair.compute) : json()}};
    object.update(paired_json(pair.difference));
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
  const auto with_folded = by_k_rows(results.rows);
  out.update(by_k_json(summarize(with_folded), results.comparison));
  if (!results.diverged.empty()) out["diverged"] = diverged_json(results.diverged);
  for (const auto& table : results.tables) out["tables"].push_back(to_json(table));
  return out;
}

StudyResults results_from_json(const json& object, const std::string& where) {
  std::vector<ShownTable> tables;
  if (object.contains("tables")) {
    PENSTOCK_CHECK(object["tables"].is_array(), where, ": 'tables' is not a list");
    for (const auto& table : object["tables"])
      tables.push_back(shown_table_from_json(table, where + ": tables"));
  }
  return {.name = string_or(object, "name", "study", where),
          .title = string_or(object, "title", "", where),
          .claim = string_or(object, "claim", "", where),
          .scale = string_or(object, "scale", "", where),
          .command = string_or(object, "command", "", where),
          .planned_runs =
              static_cast<int>(std::clamp(number_or(object, "planned_runs", 0, where), 0.0, 1e6)),
          .comparison = comparison_from_json(object, where),
          .rows = rows_from_json(object, where),
          .diverged = diverged_from_json(object, where + ": diverged"),
          .tables = std::move(tables)};
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
  return {.rows = rows_from_json(object, path),
          .diverged = diverged_from_json(object, path + ": diverged")};
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
  if (!kept.diverged.empty()) object["diverged"] = diverged_json(kept.diverged);
  write_file_atomically(real_file_system(), path, readable_text(object));
}

}  // namespace penstock::study
