// Means, differences and the verdict.
#include "penstock/study/by_k_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "penstock/study/compute.h"

namespace penstock::study {
namespace {

double quality(const KFigures& figures, const std::string& measure) {
  return measure == "perplexity" ? figures.perplexity : figures.bits_per_byte;
}

const KFigures* figures_at(const RunRow& row, std::int64_t k) {
  return row.by_k ? row.by_k->at(k) : nullptr;
}

std::vector<double> qualities(const VariantSummary& variant, std::int64_t k,
                              const std::string& measure) {
  std::vector<double> out;
  for (const RunRow* row : variant.rows)
    if (const KFigures* figures = figures_at(*row, k)) out.push_back(quality(*figures, measure));
  return out;
}

/// Mean bits per byte at the best k, or of the split measured at the end; 0: unknown.
double best_bits_per_byte(const VariantSummary& variant, std::span<const std::int64_t> ks) {
  double best = 0;
  for (const std::int64_t k : ks)
    if (const Spread at = quality_at(variant, k, "bits_per_byte");
        at.count > 0 && (best == 0 || at.mean < best))
      best = at.mean;
  if (best > 0) return best;
  std::vector<double> test;
  for (const RunRow* row : variant.rows)
    if (row->test && row->test->bits_per_byte > 0) test.push_back(row->test->bits_per_byte);
  return test.empty() ? variant.bits_per_byte.mean : spread(test).mean;
}

/// Whether its rows have figures of that very k, and not one for all.
bool has_k(const VariantSummary& variant, std::int64_t k) {
  return std::ranges::any_of(variant.rows, [&](const RunRow* row) {
    return row->by_k &&
           std::ranges::find(row->by_k->points, k, &KFigures::k) != row->by_k->points.end();
  });
}

/// A model without k stands beside those that take all experts they are measured with, for its
/// feed-forward is as wide as theirs.
std::string order_at(std::span<const VariantSummary> variants, std::int64_t k,
                     const std::string& measure) {
  const auto ks = measured_ks(variants);
  const bool last = ks.empty() || k == ks.back();
  std::vector<std::pair<double, std::string>> found;
  for (const auto& variant : variants)
    if (const Spread at = quality_at(variant, k, measure);
        variant.causal && at.count > 0 && (last || has_k(variant, k)))
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

/// " but A, B", those that are not judged; "" where all are.
std::string exceptions(std::span<const VariantSummary> variants, const Comparison& comparison) {
  std::string out;
  for (const auto& variant : variants)
    if (!is_judged(variant, comparison)) out += (out.empty() ? " but " : ", ") + variant.label;
  return out;
}

}  // namespace

std::vector<std::int64_t> measured_ks(std::span<const VariantSummary> variants) {
  std::set<std::int64_t> ks;
  for (const auto& variant : variants)
    for (const RunRow* row : variant.rows)
      if (row->by_k)
        for (const KFigures& point : row->by_k->points) ks.insert(point.k);
  if (ks.size() > 1) ks.erase(0);
  return {ks.begin(), ks.end()};
}

Spread quality_at(const VariantSummary& variant, std::int64_t k, const std::string& measure) {
  return spread(qualities(variant, k, measure));
}

double flops_at(const VariantSummary& variant, std::int64_t k) {
  std::vector<double> out;
  for (const RunRow* row : variant.rows)
    if (const KFigures* figures = figures_at(*row, k)) out.push_back(figures->flops_per_token);
  return spread(out).mean;
}

std::vector<KComparison> compare_with_reference(std::span<const VariantSummary> variants,
                                                const Comparison& comparison) {
  const auto reference = std::ranges::find(variants, comparison.reference, &VariantSummary::name);
  if (reference == variants.end()) return {};
  std::vector<KComparison> out;
  for (const std::int64_t k : measured_ks(variants)) {
    for (const auto& variant : variants) {
      if (variant.name == reference->name) continue;
      std::vector<double> a, b;
      for (const RunRow* first : variant.rows)
        for (const RunRow* second : reference->rows) {
          const KFigures *mine = figures_at(*first, k), *theirs = figures_at(*second, k);
          if (first->seed != second->seed || !mine || !theirs) continue;
          a.push_back(quality(*mine, comparison.measure));
          b.push_back(quality(*theirs, comparison.measure));
        }
      if (!a.empty())
        out.push_back({.variant = variant.name,
                       .label = variant.label,
                       .reference_label = reference->label,
                       .k = k,
                       .difference = paired_difference(a, b)});
    }
  }
  return out;
}

std::vector<Undertrained> undertrained(std::span<const VariantSummary> variants,
                                       const Comparison& comparison) {
  std::vector<Undertrained> out;
  if (comparison.baseline.bits_per_byte <= 0) return out;
  const auto ks = measured_ks(variants);
  for (const auto& variant : variants)
    if (const double best = best_bits_per_byte(variant, ks);
        is_judged(variant, comparison) && !(best > 0 && best < comparison.baseline.bits_per_byte))
      out.push_back({.variant = variant.name, .label = variant.label, .bits_per_byte = best});
  return out;
}

std::vector<Undertrained> undertrained_at(std::span<const VariantSummary> variants,
                                          const Comparison& comparison, std::int64_t k) {
  std::vector<Undertrained> out;
  const double baseline = comparison.baseline.bits_per_byte;
  for (const auto& variant : variants)
    if (const Spread at = quality_at(variant, k, "bits_per_byte");
        is_judged(variant, comparison) && at.count > 0 && baseline > 0 && !(at.mean < baseline))
      out.push_back({.variant = variant.name, .label = variant.label, .bits_per_byte = at.mean});
  return out;
}

bool order_may_be_told(std::span<const VariantSummary> variants, const Comparison& comparison) {
  return comparison.baseline.bits_per_byte > 0 && undertrained(variants, comparison).empty();
}

bool order_may_be_told(std::span<const VariantSummary> variants, const Comparison& comparison,
                       std::int64_t k) {
  return order_may_be_told(variants, comparison) &&
         undertrained_at(variants, comparison, k).empty();
}

bool may_be_tinted(std::span<const VariantSummary> variants, const Comparison& comparison) {
  return compute_difference(variants).empty() && undertrained(variants, comparison).empty();
}

std::vector<std::string> verdict(std::span<const VariantSummary> variants,
                                 const Comparison& comparison) {
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
    if (const auto under = undertrained_at(variants, comparison, k); !under.empty()) {
      line = fmt::format("undertrained at k = {}: {} is not beaten by", k, baseline.name);
      for (const auto& one : under)
        line += fmt::format("{} {} ({:.4f})", &one == &under.front() ? "" : ",", one.label,
                            one.bits_per_byte);
    }
    if (!line.empty()) out.push_back(std::move(line));
  }
  return out;
}

std::optional<double> published_at(const Comparison& comparison, const std::string& variant,
                                   std::int64_t k) {
  return published_number(comparison, variant, k > 0 ? fmt::format("k{}", k) : "all", "all");
}

std::vector<KSeries> k_series(std::span<const VariantSummary> variants,
                              const Comparison& comparison) {
  std::vector<KSeries> out;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    std::set<std::int64_t> own;  // the variant's points: its k, or one for all
    for (const RunRow* row : variants[i].rows)
      if (row->by_k)
        for (const KFigures& point : row->by_k->points) own.insert(point.k);
    KSeries series{.label = variants[i].label, .variant = i};
    for (const RunRow* row : variants[i].rows)
      if (row->by_k) series.trained_k = row->by_k->trained_k;
    for (const std::int64_t k : own) {
      const auto values = qualities(variants[i], k, comparison.measure);
      const auto [low, high] = std::ranges::minmax(values);
      series.points.push_back({.k = k,
                               .megaflops = flops_at(variants[i], k) / 1e6,
                               .mean = spread(values).mean,
                               .low = low,
                               .high = high});
    }
    if (!series.points.empty()) out.push_back(std::move(series));
  }
  return out;
}

std::string quality_text(double value, const std::string& measure) {
  return measure == "perplexity" ? fmt::format("{:.3f}", value) : fmt::format("{:.4f}", value);
}

}  // namespace penstock::study
