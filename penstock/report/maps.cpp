// Makes heat maps of the experts' load, and bars of speed and memory.
#include <fmt/format.h>

#include <algorithm>

#include "penstock/report/html.h"
#include "penstock/report/result_columns.h"
#include "penstock/report/sections.h"

namespace penstock::report {

using namespace study;

namespace {

// The run of the first seed with a load map. Maps are not averaged over seeds, because the
// experts of different seeds do not correspond.
const RunRow* run_with_load(const VariantSummary& variant) {
  for (const RunRow* row : variant.rows)
    if (row->validation && !row->validation->load.empty()) return row;
  return nullptr;
}

std::string layer_of_run(const RunRow& run, std::size_t l) {
  return fmt::format("layer {}", run.model_layer(l));
}

double largest(const Matrix& matrix) {
  double out = 0;
  for (const auto& row : matrix)
    for (const double value : row) out = std::max(out, value);
  return out;
}

/// A load map without rows. On the page of one run it has no name.
NamedMap load_map(Variants variants, std::size_t i, const Matrix& load, double max) {
  NamedMap out{.name = one_run(variants) ? "" : variants[i].label, .variant = i};
  out.map = {.max = max, .scale = 100, .unit = " % of tokens"};
  std::size_t experts = 0;
  for (const auto& row : load) experts = std::max(experts, row.size());
  for (std::size_t e = 0; e < experts; ++e) out.map.columns.push_back(fmt::to_string(e));
  return out;
}

std::string imbalance_text(const VariantSummary& variant, std::int64_t seed) {
  const Spread even = spread_of(variant, [](const RunRow& row) -> std::optional<double> {
    if (!row.validation || row.validation->load.empty()) return std::nullopt;
    return imbalance(row.validation->load);
  });
  const std::string text = "Imbalance (sd ÷ mean over experts, mean over layers): " +
                           spread_cell(even, fixed(2)).whole();
  return even.count == 1 ? text + "."
                         : fmt::format("Seed {}. {} over {} seeds.", seed, text, even.count);
}

// The active experts by layer and domain, mean over seeds. Unlike experts, layers and domains are
// the same in every run.
Matrix mean_active(const VariantSummary& variant, const std::vector<std::string>& domains) {
  Matrix sum;
  double runs = 0;
  for (const RunRow* row : variant.rows) {
    if (!row->validation || row->validation->active_by_layer.empty()) continue;
    const study::Evaluation& e = *row->validation;
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

std::string bar_card(Variants variants, const ResultColumn& column) {
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
        escape(column.cell(variants[i]).whole()));
  }
  return out + "</div><figcaption>" + escape(column.explanation) + "</figcaption></figure>";
}

}  // namespace

std::vector<Section> load_sections(Variants variants) {
  Section whole{.title = "Load of the experts",
                .note =
                    "Percent of the validation tokens that each expert (columns) of each layer "
                    "(rows) receives. A layer's row adds up to 100 times its active experts "
                    "per token."},
      by_domain{.title = "Load by domain"};
  if (!one_run(variants))
    whole.note += " One run per variant: experts of different seeds do not correspond.";
  double max = 0, domain_max = 0;
  for (const auto& variant : variants)
    if (const RunRow* row = run_with_load(variant)) {
      max = std::max(max, largest(row->validation->load));
      for (const auto& [name, load] : row->validation->load_by_domain)
        domain_max = std::max(domain_max, largest(load));
    }
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const RunRow* row = run_with_load(variants[i]);
    if (!row) continue;
    const study::Evaluation& e = *row->validation;
    NamedMap map = load_map(variants, i, e.load, max),
             domains = load_map(variants, i, e.load, domain_max);
    map.caption = imbalance_text(variants[i], row->seed);
    if (!one_run(variants)) domains.caption = fmt::format("Seed {}.", row->seed);
    for (std::size_t l = 0; l < e.load.size(); ++l) {
      const std::string name = layer_of_run(*row, l);
      map.map.rows.push_back({name, e.load[l], ""});
      for (const auto& [domain, load] : e.load_by_domain)
        if (e.load_by_domain.size() > 1 && l < load.size())
          domains.map.rows.push_back({domain, load[l], name});
    }
    whole.maps.push_back(std::move(map));
    if (!domains.map.rows.empty()) by_domain.maps.push_back(std::move(domains));
  }
  return {std::move(whole), std::move(by_domain)};
}

Section active_section(Variants variants) {
  const auto domains = measured_domains(variants);
  Section out{.title = "Active experts per token",
              .note = "By layer (rows) and domain (columns) on the validation split"};
  out.note += one_run(variants) ? "." : ", mean over seeds.";
  std::vector<Matrix> means;
  double max = 0;
  for (const auto& variant : variants) {
    means.push_back(mean_active(variant, domains));
    max = std::max(max, largest(means.back()));
  }
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (means[i].empty() || max == 0) continue;
    NamedMap map = load_map(variants, i, {}, max);
    map.map = {.columns = {"all"}, .max = max, .digits = 2, .unit = " experts per token"};
    map.map.columns.insert(map.map.columns.end(), domains.begin(), domains.end());
    for (std::size_t l = 0; l < means[i].size(); ++l)
      map.map.rows.push_back({layer_of_run(*variants[i].rows[0], l), means[i][l], ""});
    out.maps.push_back(std::move(map));
  }
  return out;
}

std::string speed_section(Variants variants) {
  std::string cards;
  for (const auto& column : filled_columns(variants))
    if (column.of_machine) cards += bar_card(variants, column);
  return cards.empty() ? ""
                       : "<h2>Speed and memory</h2><div class=\"grid thirds\">" + cards + "</div>";
}

}  // namespace penstock::report
