// The report's section on experts per token.
#include <fmt/format.h>

#include <set>

#include "penstock/study/by_k_summary.h"
#include "penstock/study/by_k_text.h"
#include "penstock/study/columns.h"
#include "penstock/study/compute.h"
#include "penstock/study/html.h"
#include "penstock/study/page_sections.h"

namespace penstock::study {
namespace {

std::string k_heading(std::int64_t k) { return k > 0 ? fmt::format("k = {}", k) : "any k"; }

std::string head(const std::string& first, std::span<const std::int64_t> ks) {
  std::string out = "<tr><th>" + first + "</th>";
  for (const std::int64_t k : ks) out += "<th>" + k_heading(k) + "</th>";
  return out + "</tr>";
}

/// The variant with the lowest mean at that k, among those that may be compared.
const VariantSummary* best_at(Variants variants, std::int64_t k, const std::string& measure) {
  const VariantSummary* best = nullptr;
  for (const auto& variant : variants)
    if (variant.causal && quality_at(variant, k, measure).count > 0 &&
        (!best || quality_at(variant, k, measure).mean < quality_at(*best, k, measure).mean))
      best = &variant;
  return best;
}

std::string paper_row(const VariantSummary& variant, const Comparison& comparison,
                      std::span<const std::int64_t> ks) {
  if (!comparison.published.contains(variant.name)) return "";
  std::string out = "<tr class=\"paper\"><td>paper</td>";
  for (const std::int64_t k : ks) {
    const auto number = published_at(comparison, variant.name, k);
    out += "<td>" + (number ? fmt::format("{:g}", *number) : "–") + "</td>";
  }
  return out + "</tr>";
}

std::string quality_table(Variants variants, const Comparison& comparison,
                          std::span<const std::int64_t> ks) {
  std::set<std::int64_t> told;
  for (const std::int64_t k : ks)
    if (order_may_be_told(variants, comparison, k) && compute_difference(variants).empty())
      told.insert(k);
  const auto format = [&](double value) { return quality_text(value, comparison.measure); };
  std::string out = "<div class=\"scroll\"><table>" + head(one_run(variants) ? "" : "variant", ks);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    out += "<tr><td>" + dot(i) + escape(variants[i].label) + "</td>";
    for (const std::int64_t k : ks) {
      const bool best =
          told.contains(k) && best_at(variants, k, comparison.measure) == &variants[i];
      const double flops = flops_at(variants[i], k);
      out += fmt::format(
          "<td{}>{}{}</td>", best ? " class=\"best\"" : "",
          spread_html(quality_at(variants[i], k, comparison.measure), format),
          flops > 0 ? " <span class=\"sd\">" + with_prefix(flops, "FLOP") + "</span>" : "");
    }
    out += "</tr>" + paper_row(variants[i], comparison, ks);
  }
  return out + "</table></div>";
}

std::string difference_table(Variants variants, const Comparison& comparison,
                             std::span<const std::int64_t> ks) {
  const auto all = compare_with_reference(variants, comparison);
  if (all.empty()) return "";
  std::string out =
      "<div class=\"scroll\"><table class=\"pairs\">" +
      head("difference from " + escape(all[0].reference_label) + ", seed by seed", ks);
  for (const auto& variant : variants) {
    std::string cells;
    bool any = false;
    for (const std::int64_t k : ks) {
      cells += "<td>";
      for (const auto& one : all) {
        if (one.variant != variant.name || one.k != k) continue;
        any = true;
        const PairedDifference& d = one.difference;
        cells += fmt::format("{:+.4f}", d.difference.mean);
        cells += d.half_width ? fmt::format(" <span class=\"sd\">{:+.4f} to {:+.4f}</span>",
                                            d.difference.mean - *d.half_width,
                                            d.difference.mean + *d.half_width)
                              : " <span class=\"sd\">one seed</span>";
      }
      cells += "</td>";
    }
    if (any) out += "<tr><td>" + escape(variant.label) + "</td>" + cells + "</tr>";
  }
  return out + "</table></div>";
}

/// What may be said, the orders folded away: the table tints the best of each column.
std::string verdict_lines(Variants variants, const Comparison& comparison) {
  const bool tell = order_may_be_told(variants, comparison);
  std::string said, orders;
  for (const auto& line : verdict(variants, comparison))
    (tell && !said.empty() ? orders : said) +=
        (tell ? "<p>" : "<p class=\"warning\">") + escape(line) + "</p>";
  if (!orders.empty())
    said += "<details><summary>Order of the means at each k</summary>" + orders + "</details>";
  return said;
}

}  // namespace

std::string by_k_section(Variants variants, const Comparison& comparison) {
  const auto ks = measured_ks(variants);
  const std::string words = verdict_lines(variants, comparison);
  if (ks.empty()) return words.empty() ? "" : "<h2>Baseline</h2>" + words;
  bool several = false;
  for (const auto& variant : variants) several |= variant.rows.size() > 1;
  const std::string over_seeds =
      one_run(variants)
          ? "; useful FLOPs of a forward pass per token beneath.</p>"
          : "; mean ± standard deviation over seeds, useful FLOPs of a forward pass per token "
            "beneath. Differences are of runs with the same seed, with the 95 % interval of their "
            "mean by Student’s t. Nothing is said of an order unless every variant beats the "
            "study’s baseline at its best k, and of the order at a k only where every variant does "
            "at that k.</p>";
  std::string title = measure_title(comparison);
  title[0] = title[0] == 'b' ? 'B' : 'P';
  return "<h2>By number of experts</h2>" + words + by_k_chart_cards(title, several) +
         "<div class=\"card\">" + quality_table(variants, comparison, ks) +
         difference_table(variants, comparison, ks) + "</div><p class=\"note\">" + title +
         " with k experts per token, " + escape(measured_on(variants)) + over_seeds;
}

}  // namespace penstock::study
