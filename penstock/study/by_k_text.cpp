// The terminal's tables by k.
#include "penstock/study/by_k_text.h"

#include <fmt/format.h>

#include <set>

#include "penstock/study/by_k_summary.h"
#include "penstock/study/columns.h"
#include "penstock/study/text_table.h"

namespace penstock::study {
namespace {

using Lines = std::vector<std::vector<std::string>>;

Lines quality_lines(std::span<const VariantSummary> variants, const Comparison& comparison,
                    std::span<const std::int64_t> ks) {
  const auto format = [&](double value) { return quality_text(value, comparison.measure); };
  Lines lines(1, {"variant"});
  for (const std::int64_t k : ks) lines[0].push_back(k > 0 ? fmt::format("k={}", k) : "any k");
  for (const auto& variant : variants) {
    auto& line = lines.emplace_back(1, variant.label);
    for (const std::int64_t k : ks)
      line.push_back(spread_text(quality_at(variant, k, comparison.measure), format));
    if (!comparison.published.contains(variant.name)) continue;
    auto& paper = lines.emplace_back(1, "  paper");
    for (const std::int64_t k : ks) {
      const auto number = published_at(comparison, variant.name, k);
      paper.push_back(number ? fmt::format("{:g}", *number) : "–");
    }
  }
  return lines;
}

Lines flops_lines(std::span<const VariantSummary> variants, std::span<const std::int64_t> ks) {
  Lines lines(1, {"MFLOP per token, forward"});
  for (const std::int64_t k : ks) lines[0].push_back(k > 0 ? fmt::format("k={}", k) : "any k");
  for (const auto& variant : variants) {
    auto& line = lines.emplace_back(1, variant.label);
    for (const std::int64_t k : ks) {
      const double flops = flops_at(variant, k);
      line.push_back(flops > 0 ? fmt::format("{:.3f}", flops / 1e6) : "–");
    }
  }
  return lines;
}

std::string differences(std::span<const VariantSummary> variants, const Comparison& comparison) {
  std::string out;
  std::int64_t last = -1;
  for (const auto& one : compare_with_reference(variants, comparison)) {
    if (last < 0)
      out += fmt::format("\ndifference in {} from {}, seed by seed:\n", measure_title(comparison),
                         one.reference_label);
    if (one.k != last && one.k > 0) out += fmt::format(" k = {}\n", one.k);
    last = one.k;
    out += "  " + pair_text({one.label, one.reference_label, one.difference}) + "\n";
  }
  return out;
}

}  // namespace

std::string measured_on(std::span<const VariantSummary> variants) {
  std::set<std::string> places;
  for (const auto& variant : variants)
    for (const RunRow* row : variant.rows)
      if (row->by_k)
        places.insert(row->by_k->split + " split, " + row->by_k->checkpoint + " checkpoint");
  std::string out;
  for (const auto& place : places) out += (out.empty() ? "" : "; ") + place;
  return out;
}

std::string by_k_text(std::span<const VariantSummary> variants, const Comparison& comparison) {
  std::string out;
  if (const auto ks = measured_ks(variants); !ks.empty())
    out += fmt::format("\n{} with k experts per token ({}):\n", measure_title(comparison),
                       measured_on(variants)) +
           aligned(quality_lines(variants, comparison, ks)) + "\n" +
           aligned(flops_lines(variants, ks)) + differences(variants, comparison);
  const auto lines = verdict(variants, comparison);
  if (!lines.empty()) out += "\n";
  for (const auto& line : lines) out += line + "\n";
  return out;
}

}  // namespace penstock::study
