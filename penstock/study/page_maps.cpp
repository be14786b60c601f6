// Heat maps and bars of the report.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "penstock/study/columns.h"
#include "penstock/study/html.h"
#include "penstock/study/page_sections.h"

namespace penstock::study {
namespace {

// The first seed that has a load map. Experts of different seeds do not correspond, so maps are not
// averaged.
const RunRow* run_with_load(const VariantSummary& variant) {
  for (const RunRow* row : variant.rows)
    if (row->validation && !row->validation->load.empty()) return row;
  return nullptr;
}

double largest(const Matrix& matrix) {
  double out = 0;
  for (const auto& row : matrix)
    for (const double value : row) out = std::max(out, value);
  return out;
}

std::vector<std::string> expert_names(const Matrix& load) {
  std::size_t count = 0;
  for (const auto& row : load) count = std::max(count, row.size());
  std::vector<std::string> out;
  for (std::size_t e = 0; e < count; ++e) out.push_back(fmt::to_string(e));
  return out;
}

/// The i-th variant's map; the page of one run need not say whose it is.
std::string map_card(Variants variants, std::size_t i, const HeatMap& map,
                     const std::string& caption) {
  std::string out = "<figure class=\"card\">";
  if (!one_run(variants)) out += "<h3>" + dot(i) + escape(variants[i].label) + "</h3>";
  out += heat_map(map);
  if (!caption.empty()) out += "<figcaption>" + escape(caption) + "</figcaption>";
  return out + "</figure>";
}

std::string load_card(Variants variants, std::size_t i, const RunRow& row, double max) {
  HeatMap map{.columns = expert_names(row.validation->load),
              .max = max,
              .scale = 100,
              .unit = " % of tokens"};
  for (std::size_t l = 0; l < row.validation->load.size(); ++l)
    map.rows.push_back({fmt::format("layer {}", l), row.validation->load[l], ""});
  std::vector<double> spreads;
  for (const RunRow* one : variants[i].rows)
    if (one->validation && !one->validation->load.empty())
      spreads.push_back(imbalance(one->validation->load));
  const std::string even =
      spread_text(spread(spreads), [](double x) { return fmt::format("{:.2f}", x); });
  return map_card(
      variants, i, map,
      spreads.size() == 1
          ? fmt::format("Imbalance (sd ÷ mean over experts, mean over layers): {}.", even)
          : fmt::format("Seed {}. Imbalance (sd ÷ mean over experts, mean over layers): "
                        "{} over {} seeds.",
                        row.seed, even, spreads.size()));
}

std::string domain_load_card(Variants variants, std::size_t i, const RunRow& row, double max) {
  const auto& by_domain = row.validation->load_by_domain;
  if (by_domain.size() < 2) return "";
  HeatMap map{.columns = expert_names(row.validation->load),
              .max = max,
              .scale = 100,
              .unit = " % of tokens"};
  for (std::size_t l = 0; l < row.validation->load.size(); ++l)
    for (const auto& [domain, load] : by_domain)
      if (l < load.size()) map.rows.push_back({domain, load[l], fmt::format("layer {}", l)});
  return map_card(variants, i, map, one_run(variants) ? "" : fmt::format("Seed {}.", row.seed));
}

// Mean over seeds: layers and domains, unlike experts, are the same thing in every run.
Matrix mean_active(const VariantSummary& variant, const std::vector<std::string>& domains) {
  Matrix sum;
  double runs = 0;
  for (const RunRow* row : variant.rows) {
    if (!row->validation || row->validation->active_by_layer.empty()) continue;
    const Evaluation& e = *row->validation;
    sum.resize(e.active_by_layer.size(), std::vector<double>(domains.size() + 1, 0));
    for (std::size_t l = 0; l < std::min(sum.size(), e.active_by_layer.size()); ++l) {
      sum[l][0] += e.active_by_layer[l];
      for (std::size_t d = 0; d < domains.size(); ++d)
        if (const auto it = e.active_by_layer_domain.find(domains[d]);
            it != e.active_by_layer_domain.end() && l < it->second.size())
          sum[l][d + 1] += it->second[l];
    }
    ++runs;
  }
  for (auto& layer : sum)
    for (double& value : layer) value /= runs;
  return sum;
}

std::string bar_card(Variants variants, const Column& column) {
  double max = 0;
  for (const auto& variant : variants) max = std::max(max, column.value(variant).mean);
  std::string out =
      fmt::format("<figure class=\"card\"><h3>{}</h3><div class=\"bars\">", escape(column.title));
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const Spread value = column.value(variants[i]);
    out += fmt::format(
        "<span>{}{}</span><span class=\"track\"><i "
        "style=\"--color:var(--c{});width:{:.1f}%\"></i></span>"
        "<span class=\"value\">{}</span>",
        dot(i), escape(variants[i].label), i % 8, max > 0 ? 100 * value.mean / max : 0,
        escape(column.text(variants[i])));
  }
  return out + "</div><figcaption>" + escape(column.explanation) + "</figcaption></figure>";
}

}  // namespace

std::string load_section(Variants variants) {
  std::string whole, by_domain;
  double max = 0, domain_max = 0;
  std::size_t experts = 0;
  for (const auto& variant : variants) {
    const RunRow* row = run_with_load(variant);
    if (!row) continue;
    max = std::max(max, largest(row->validation->load));
    experts = std::max(experts, expert_names(row->validation->load).size());
    for (const auto& [name, load] : row->validation->load_by_domain)
      domain_max = std::max(domain_max, largest(load));
  }
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const RunRow* row = run_with_load(variants[i]);
    if (!row) continue;
    whole += load_card(variants, i, *row, max);
    by_domain += domain_load_card(variants, i, *row, domain_max);
  }
  if (whole.empty()) return "";
  const std::string grid = experts <= 8 ? "<div class=\"grid thirds\">" : "<div class=\"grid\">";
  std::string out =
      "<h2>Load of the experts</h2><p class=\"note\">Percent of the validation tokens that each "
      "expert (columns) of each layer (rows) receives. A layer's row adds up to 100 times its "
      "active experts per token." +
      std::string(one_run(variants) ? ""
                                    : " One run per variant: experts of different seeds do not "
                                      "correspond.") +
      "</p>" + grid + whole + "</div>" + heat_scale(max, "0 %", fmt::format("{:.0f} %", 100 * max));
  if (!by_domain.empty())
    out += "<details open><summary>Load by domain</summary>" + grid + by_domain + "</div>" +
           heat_scale(domain_max, "0 %", fmt::format("{:.0f} %", 100 * domain_max)) + "</details>";
  return out;
}

std::string active_section(Variants variants) {
  const auto domains = measured_domains(variants);
  std::vector<Matrix> means;
  double max = 0;
  for (const auto& variant : variants) {
    means.push_back(mean_active(variant, domains));
    max = std::max(max, largest(means.back()));
  }
  if (max == 0) return "";
  std::string cards;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (means[i].empty()) continue;
    HeatMap map{.columns = {"all"}, .max = max, .digits = 2, .unit = " experts per token"};
    map.columns.insert(map.columns.end(), domains.begin(), domains.end());
    for (std::size_t l = 0; l < means[i].size(); ++l)
      map.rows.push_back({fmt::format("layer {}", l), means[i][l], ""});
    cards += map_card(variants, i, map, "");
  }
  return "<h2>Active experts per token</h2><p class=\"note\">By layer (rows) and domain (columns) "
         "on the validation split" +
         std::string(one_run(variants) ? "" : ", mean over seeds") + ".</p><div class=\"grid\">" +
         cards + "</div>" + heat_scale(max, "0", fmt::format("{:.2f}", max));
}

std::string speed_section(Variants variants) {
  std::string cards;
  for (const auto& column : filled_columns(variants))
    if (column.title == "tokens/s" || column.title == "share of peak" || column.title == "memory")
      cards += bar_card(variants, column);
  return cards.empty() ? ""
                       : "<h2>Speed and memory</h2><div class=\"grid thirds\">" + cards + "</div>";
}

}  // namespace penstock::study
