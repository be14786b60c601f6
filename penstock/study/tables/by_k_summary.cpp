#include "penstock/study/tables/by_k_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "penstock/study/runs/equal_compute.h"

namespace penstock::study {
namespace {

/// `value` of a run's figures at k; no value if the run has none at k.
template <class F>
Figure at_k(std::int64_t k, F value) {
  return [=](const RunRow& row) -> std::optional<double> {
    const auto measured = measured_k(row);
    const KFigures* const found = measured ? measured->at(k) : nullptr;
    return found ? std::optional(value(*found)) : std::nullopt;
  };
}

Figure quality_figure(std::int64_t k, Quality measure) {
  return at_k(k, [measure](const KFigures& figures) { return quality_of(figures, measure); });
}

Figure flops_figure(std::int64_t k) { return at_k(k, std::mem_fn(&KFigures::flops_per_token)); }

/// Mean bits per byte at the best k, or of the last evaluation if no k was measured; 0: unknown.
double best_bits_per_byte(const VariantSummary& variant, std::span<const std::int64_t> ks) {
  double best = 0;
  for (const std::int64_t k : ks)
    if (const Spread at = quality_at(variant, k, Quality::bits_per_byte);
        at.count > 0 && (best == 0 || at.mean < best))
      best = at.mean;
  if (best > 0) return best;
  const Spread test = spread_of(variant, [](const RunRow& row) -> std::optional<double> {
    if (!row.test || row.test->bits_per_byte <= 0) return std::nullopt;
    return row.test->bits_per_byte;
  });
  return test.count == 0 ? variant.bits_per_byte.mean : test.mean;
}

/// The values of k at which the variant has points; 0 is the point of a model without k.
std::set<std::int64_t> own_ks(const VariantSummary& variant) {
  std::set<std::int64_t> out;
  for (const RunRow* row : variant.rows)
    if (const auto measured = measured_k(*row))
      for (const KFigures& point : measured->points) out.insert(point.k);
  return out;
}

/// The order of the variants' means at k as text; "" for fewer than two variants. A model without k
/// is included only at the largest k, because its feed-forward is as wide as all these experts
/// together.
std::string order_at(Variants variants, std::int64_t k, Quality measure) {
  const auto ks = measured_ks(variants);
  const bool last = ks.empty() || k == ks.back();
  std::vector<std::pair<double, std::string>> found;
  for (const auto& variant : variants)
    if (const Spread at = quality_at(variant, k, measure);
        variant.causal && at.count > 0 && (last || own_ks(variant).contains(k)))
      found.emplace_back(at.mean, variant.label);
  if (found.size() < 2) return "";
  std::ranges::stable_sort(found, {}, &std::pair<double, std::string>::first);
  std::string out =
      k > 0 ? fmt::format("order of the means at k = {}: ", k) : "order of the means: ";
  for (std::size_t i = 0; i < found.size(); ++i)
    out += fmt::format("{}{} {}", i > 0 ? ", " : "", found[i].second,
                       quality_text(found[i].first, measure));
  return out;
}

bool is_judged(const VariantSummary& variant, const Comparison& comparison) {
  const auto& except = comparison.baseline.except;
  return std::ranges::find(except, variant.name) == except.end();
}

/// The variants that are not judged, as " but A, B"; "" if all are judged.
std::string exceptions(Variants variants, const Comparison& comparison) {
  std::string out;
  for (const auto& variant : variants)
    if (!is_judged(variant, comparison)) out += (out.empty() ? " but " : ", ") + variant.label;
  return out;
}

}  // namespace

std::vector<RunRow> by_k_rows(std::span<const RunRow> rows) {
  std::vector<RunRow> out(rows.begin(), rows.end());
  for (const RunRow& row : rows) {
    const auto measured = measured_k(row, /*folded=*/true);
    if (!measured) continue;
    RunRow& folded = out.emplace_back(row);
    folded.variant += "-folded";
    folded.label += ", folded";
    folded.measured = to_json(*measured);
  }
  return out;
}

std::vector<std::int64_t> measured_ks(Variants variants) {
  std::set<std::int64_t> ks;
  for (const auto& variant : variants) ks.merge(own_ks(variant));
  if (ks.size() > 1) ks.erase(0);
  return {ks.begin(), ks.end()};
}

double quality_of(const KFigures& figures, Quality measure) {
  return measure == Quality::perplexity ? figures.perplexity : figures.bits_per_byte;
}

Spread quality_at(const VariantSummary& variant, std::int64_t k, Quality measure) {
  return spread_of(variant, quality_figure(k, measure));
}

double flops_at(const VariantSummary& variant, std::int64_t k) {
  return spread_of(variant, flops_figure(k)).mean;
}

std::optional<PairedDifference> difference_at(const VariantPair& pair, std::int64_t k,
                                              Quality measure) {
  return difference_of(pair, quality_figure(k, measure));
}

std::vector<Undertrained> undertrained(Variants variants, const Comparison& comparison,
                                       std::optional<std::int64_t> k) {
  std::vector<Undertrained> out;
  const double baseline = comparison.baseline.bits_per_byte;
  if (baseline <= 0) return out;
  const auto ks = measured_ks(variants);
  for (const auto& variant : variants) {
    const Spread at = k ? quality_at(variant, *k, Quality::bits_per_byte) : Spread();
    if (!is_judged(variant, comparison) || (k && at.count == 0)) continue;
    const double own = k ? at.mean : best_bits_per_byte(variant, ks);
    if (!(own > 0 && own < baseline)) out.push_back({variant.name, variant.label, own});
  }
  return out;
}

bool order_may_be_told(Variants variants, const Comparison& comparison,
                       std::optional<std::int64_t> k) {
  return comparison.baseline.bits_per_byte > 0 && undertrained(variants, comparison).empty() &&
         (!k || undertrained(variants, comparison, k).empty());
}

bool may_be_tinted(Variants variants, const Comparison& comparison) {
  return compute_difference(variants).empty() && undertrained(variants, comparison).empty();
}

std::vector<std::string> verdict(Variants variants, const Comparison& comparison) {
  std::vector<std::string> out;
  const Baseline& baseline = comparison.baseline;
  if (baseline.bits_per_byte <= 0) return out;
  for (const auto& one : undertrained(variants, comparison))
    out.push_back(fmt::format("undertrained: {} does not beat {} ({:.4f} and {:.4f} bits per byte)",
                              one.label, baseline.name, one.bits_per_byte, baseline.bits_per_byte));
  if (!out.empty()) return out;
  const auto ks = measured_ks(variants);
  out.push_back(fmt::format("every variant{}{} beats {} ({:.4f} bits per byte)",
                            exceptions(variants, comparison), ks.size() > 1 ? " at its best k" : "",
                            baseline.name, baseline.bits_per_byte));
  for (const std::int64_t k : ks) {
    std::string line = order_at(variants, k, comparison.measure);
    if (const auto under = undertrained(variants, comparison, k); !under.empty()) {
      line = fmt::format("undertrained at k = {}: {} is not beaten by", k, baseline.name);
      for (const auto& one : under)
        line += fmt::format("{} {} ({:.4f})", &one == &under.front() ? "" : ",", one.label,
                            one.bits_per_byte);
    }
    if (!line.empty()) out.push_back(std::move(line));
  }
  return out;
}

KSpread spread_point(const VariantSummary& variant, const Figure& quality, const Figure& flops) {
  std::vector<double> values;
  for (const RunRow* row : variant.rows)
    if (const auto value = quality(*row)) values.push_back(*value);
  const auto [low, high] = std::ranges::minmax(values);
  return {.megaflops = spread_of(variant, flops).mean / 1e6,
          .mean = spread(values).mean,
          .low = low,
          .high = high};
}

std::vector<KSeries> k_series(Variants variants, const Comparison& comparison) {
  std::vector<KSeries> out;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    KSeries series{.label = variants[i].label, .variant = i};
    for (const RunRow* row : variants[i].rows)
      if (const auto measured = measured_k(*row)) series.trained_k = measured->trained_k;
    for (const std::int64_t k : own_ks(variants[i])) {
      series.points.push_back(
          spread_point(variants[i], quality_figure(k, comparison.measure), flops_figure(k)));
      series.points.back().k = k;
    }
    if (!series.points.empty()) out.push_back(std::move(series));
  }
  return out;
}

std::string quality_text(double value, Quality measure) {
  return fixed(measure == Quality::perplexity ? 3 : 4)(value);
}

}  // namespace penstock::study
