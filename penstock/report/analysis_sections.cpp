#include "penstock/report/analysis_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "penstock/base/joined.h"

namespace penstock::report {

using namespace study;

namespace {

using analysis::ActiveCorrelation;
using analysis::ActiveMoments;
using analysis::Analysis;
using analysis::DomainRouting;
using analysis::ExpertTokens;
using analysis::FlipsBetween;
using analysis::FrequencyReport;
using nlohmann::json;

json line(std::size_t colour, const std::string& label, json xs, json values) {
  return {{"variant", colour},
          {"label", label},
          {"steps", std::move(xs)},
          {"values", std::move(values)}};
}

Section flips_section(const Analysis& a) {
  const std::string title = "Flips of the routing between checkpoints";
  if (!a.no_flips.empty()) return refusal(title, a.no_flips);
  const auto experts = static_cast<double>(a.config.total_experts());
  Table table{.title = "Between one checkpoint and the next",
              .columns = {"from step", "to step", "flip rate, %", "flip count"}};
  json series = json::array(), steps = json::array();
  for (const FlipsBetween& one : a.flips) {
    table.rows.push_back({{fmt::to_string(one.from), fmt::to_string(one.to),
                           fixed(3)(100 * one.rate), fixed(4)(one.rate * experts)}});
    steps.push_back(one.to);
  }
  for (std::size_t l = 0; l < a.flips[0].layers.size(); ++l) {
    json values = json::array();
    for (const FlipsBetween& one : a.flips) values.push_back(100 * one.layers[l]);
    series.push_back(line(l, layer_name(a, l), steps, values));
  }
  Section out{.title = title,
              .tables = {std::move(table)},
              .note = fmt::format(
                  "Share of the states (expert on or off, by layer and token) that differ between "
                  "two checkpoints, on the same {} tokens; the count is the rate times the "
                  "experts. ReMoE’s Figure 10 has those of a single update; between checkpoints "
                  "lie as many as the steps say.",
                  a.flip_tokens)};
  out.charts.push_back({.title = "Flip rate since the checkpoint before",
                        .drawn = {{"id", "flips"},
                                  {"series", series},
                                  {"x_title", "step"},
                                  {"y_title", "% of the states"},
                                  {"points", true},
                                  {"x_min", 0},
                                  {"y_min", 0}}});
  return out;
}

Cell moments_cell(const ActiveMoments& moments) {
  return {moments.places > 0 ? fmt::format("{:.3f} ± {:.2f}", moments.mean, moments.sd) : "–",
          fmt::format("({:.0f})", moments.places)};
}

Table frequency_table(const FrequencyReport& report) {
  Table out{.title = "Active experts by frequency and surprisal",
            .note =
                "Rows: how often the token stands in the corpus. Columns: surprisal of the token, "
                "−ln p by the model, in nats. Mean ± sd over places, (places).",
            .columns = {"occurs, times", "tokens", "all"}};
  TableRow all{.cells = {"all", "", ""}};
  double places = 0, sum = 0;
  for (const auto& bin : report.by_surprisal) {
    out.columns.emplace_back(bin.limit ? fmt::format("{:g} to {:g}", bin.least, *bin.limit)
                                       : fmt::format("{:g} or more", bin.least));
    all.cells.push_back(moments_cell(bin.active));
    places += bin.active.places;
    sum += bin.active.places * bin.active.mean;
  }
  all.cells[2] = {places > 0 ? fixed(3)(sum / places) : "–", fmt::format("({:.0f})", places)};
  for (const auto& bin : report.by_frequency) {
    TableRow& row = out.rows.emplace_back();
    row.cells = {fmt::format("{:.0f} to {:.0f}", bin.least, 2 * bin.least - 1),
                 fmt::to_string(bin.tokens), moments_cell(bin.active)};
    for (const ActiveMoments& cell : bin.by_surprisal) row.cells.push_back(moments_cell(cell));
  }
  out.rows.push_back(std::move(all));
  return out;
}

TableRow correlation_row(const std::string& name, const ActiveCorrelation& c) {
  return {{name, number_or_dash(c.frequency, "{:+.3f}"), number_or_dash(c.surprisal, "{:+.3f}"),
           number_or_dash(c.frequency_partial, "{:+.3f}"),
           number_or_dash(c.surprisal_partial, "{:+.3f}"),
           number_or_dash(c.per_doubling, "{:+.4f}"), number_or_dash(c.per_nat, "{:+.4f}")}};
}

Table correlation_table(const Analysis& a, const FrequencyReport& report) {
  Table out{.title = "Correlation with active experts, over places",
            .note = fmt::format(
                "Frequency: log2 of how often the token stands in the corpus. At fixed surprisal, "
                "at fixed frequency: partial correlations. Experts per doubling and per nat: least "
                "squares of both together. Frequency and surprisal: {}. –: nothing varies.",
                number_or_dash(report.whole.together, "{:+.3f}")),
            .columns = {"", "frequency", "surprisal", "frequency at fixed surprisal",
                        "surprisal at fixed frequency", "experts per doubling", "per nat"}};
  for (std::size_t l = 0; l < report.layers.size(); ++l)
    out.rows.push_back(correlation_row(layer_name(a, l), report.layers[l]));
  out.rows.push_back(correlation_row("mean of layers", report.whole));
  return out;
}

Chart frequency_chart(const FrequencyReport& report) {
  json xs = json::array(), means = json::array(), low = json::array(), high = json::array();
  for (const auto& bin : report.by_frequency) {
    xs.push_back(bin.least);
    means.push_back(bin.active.mean);
    low.push_back(bin.active.mean - bin.active.sd);
    high.push_back(bin.active.mean + bin.active.sd);
  }
  json series = line(0, "active experts", xs, means);
  series["low"] = low;
  series["high"] = high;
  return {.title = "Active experts by frequency",
          .caption =
              "Mean over places and layers; the band is ± the standard deviation over "
              "places.",
          .drawn = {{"id", "frequency"},
                    {"series", json::array({series})},
                    {"x_title", "how often the token stands in the corpus"},
                    {"x_name", "times "},
                    {"x_log", true},
                    {"y_title", "experts per token"},
                    {"points", true}}};
}

Section frequency_section(const Analysis& a) {
  const std::string title = "Active experts, frequency and surprisal";
  const auto& report = a.here().measures.by_frequency;
  if (!report) return refusal(title, a.refused.load);
  Section out{
      .title = title,
      .tables = {correlation_table(a, *report), frequency_table(*report)},
      .note = fmt::format("{} places; the first of each window has no surprisal.", report->places)};
  if (!report->by_frequency.empty()) out.charts.push_back(frequency_chart(*report));
  return out;
}

std::string list_text(const std::vector<analysis::ListedToken>& tokens) {
  return joined(tokens, "  ", [](const analysis::ListedToken& one) {
    return fmt::format("{} ({:.1f}%)", one.text, 100 * one.value);
  });
}

Section tokens_section(const Analysis& a) {
  const std::string title = "Tokens of each expert";
  if (a.experts.empty()) return refusal(title, a.refused.load);
  Section out{.title = title,
              .note = fmt::format(
                  "Commonest: with the token’s share of what the expert gets. Surest: with the "
                  "share of the token’s places that the expert gets, of tokens that occur {:g} "
                  "times or more.",
                  analysis::kOccursOften)};
  for (std::size_t l = 0; l < a.experts.size(); ++l) {
    Table& table = out.tables.emplace_back();
    table.title = layer_name(a, l);
    table.columns = {"expert", "", "tokens"};
    table.folded = l != (a.experts.size() - 1) / 2;
    for (std::size_t e = 0; e < a.experts[l].size(); ++e) {
      const ExpertTokens& expert = a.experts[l][e];
      table.rows.push_back({{fmt::to_string(e), "commonest", list_text(expert.commonest)}});
      table.rows.push_back({{"", "surest", list_text(expert.surest)}});
    }
  }
  return out;
}

/// One line for each domain, with a value for each layer or expert. `xs` are their numbers.
json domain_lines(const std::vector<DomainRouting>& domains, const std::vector<std::int64_t>& xs,
                  const std::function<std::vector<double>(const DomainRouting&)>& values) {
  json out = json::array();
  for (std::size_t d = 0; d < domains.size(); ++d)
    out.push_back(line(d, domains[d].name, xs, values(domains[d])));
  return out;
}

/// Shares of the assignments by expert, with one line for each domain.
Chart share_chart(const Analysis& a, std::size_t layer) {
  const auto experts = a.config.total_experts();
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(experts));
  std::iota(numbers.begin(), numbers.end(), 0);
  return {
      .title = "Share of the assignments, " + layer_name(a, layer),
      .caption = "Dashed: 1/E, where every expert gets as much as another.",
      .drawn = {{"id", fmt::format("domains-{}", layer)},
                {"series", domain_lines(a.here().measures.domains, numbers,
                                        [&](const DomainRouting& d) { return d.share(layer); })},
                {"x_title", "expert"},
                {"x_name", "expert "},
                {"y_title", "share"},
                {"points", true},
                {"x_min", 0},
                {"x_max", experts - 1},
                {"y_min", 0},
                {"lines",
                 {{{"y", 1.0 / static_cast<double>(experts)},
                   {"label", fmt::format("1/{}", experts)}}}}}};
}

Chart active_chart(const Analysis& a) {
  return {.title = "Active experts by layer",
          .drawn = {{"id", "active-by-domain"},
                    {"series", domain_lines(a.here().measures.domains, a.config.moe_layer_indices(),
                                            [](const DomainRouting& d) { return d.active; })},
                    {"x_title", "layer"},
                    {"x_name", "layer "},
                    {"y_title", "experts per token"},
                    {"points", true},
                    {"x_min", 0}}};
}

/// Active experts by layer and domain, with the domains' divergence and their inactive experts.
Table domain_table(const Analysis& a) {
  const auto& domains = a.here().measures.domains;
  Table out{.title = "Active experts per token",
            .note = fmt::format(
                "Divergence: Jensen-Shannon, of the domains’ shares of the experts, in nats: 0 "
                "where all use them alike. Inactive: experts that get fewer than 1/{:g} of a "
                "domain’s tokens, summed over domains.",
                1 / analysis::kInactiveLoad),
            .columns = {"layer"}};
  for (const DomainRouting& domain : domains) out.columns.emplace_back(domain.name);
  out.columns.emplace_back("divergence");
  out.columns.emplace_back("inactive");
  const std::vector<double> divergence = analysis::domain_divergence(domains);
  for (std::size_t l = 0; l < divergence.size(); ++l) {
    TableRow& row = out.rows.emplace_back();
    row.cells = {fmt::to_string(a.model_layer(l))};
    std::ptrdiff_t inactive = 0;
    for (const DomainRouting& domain : domains) {
      row.cells.emplace_back(fixed(3)(domain.active[l]));
      inactive += std::ranges::count_if(domain.load[l],
                                        [](double load) { return load < analysis::kInactiveLoad; });
    }
    row.cells.emplace_back(fixed(4)(divergence[l]));
    row.cells.emplace_back(fmt::to_string(inactive));
  }
  return out;
}

Section domains_section(const Analysis& a) {
  const std::string title = "Experts by domain";
  if (!a.one_domain.empty()) return refusal(title, a.one_domain);
  const auto& domains = a.here().measures.domains;
  Section out{.title = title, .tables = {domain_table(a)}};
  const std::size_t layers = domains[0].load.size();
  for (const std::size_t layer : std::set<std::size_t>{0, (layers - 1) / 2, layers - 1})
    out.charts.push_back(share_chart(a, layer));
  out.charts.push_back(active_chart(a));
  HeatMap map{.columns = expert_names(a), .max = 0, .scale = 100, .unit = " % of assignments"};
  for (std::size_t l = 0; l < layers; ++l)
    for (const DomainRouting& domain : domains) {
      map.rows.push_back({domain.name, domain.share(l), layer_name(a, l)});
      map.max = std::max(map.max, *std::ranges::max_element(map.rows.back().values));
    }
  const auto experts = static_cast<double>(a.config.total_experts());
  out.maps.push_back({.name = "Share of the assignments",
                      .map = std::move(map),
                      .caption = fmt::format(
                          "Percent of a domain’s assignments in a layer. Even: 1/{:g} = {:.1f}%.",
                          experts, 100 / experts)});
  return out;
}

}  // namespace

std::string step_text(const std::optional<std::int64_t>& step) {
  return step ? fmt::format("step {}", *step) : "this model";
}

std::string layer_name(const Analysis& a, std::size_t layer) {
  return fmt::format("layer {}", a.model_layer(layer));
}

json over_steps(const Analysis& a, const char* id, const char* y_title,
                const std::function<double(std::size_t layer, std::size_t snapshot)>& value) {
  json series = json::array(), steps = json::array();
  for (const analysis::Snapshot& snapshot : a.snapshots) steps.push_back(snapshot.step.value_or(0));
  for (std::size_t l = 0; l < a.here().measures.layers.size(); ++l) {
    json values = json::array();
    for (std::size_t i = 0; i < a.snapshots.size(); ++i) values.push_back(value(l, i));
    series.push_back(line(l, layer_name(a, l), steps, std::move(values)));
  }
  return {{"id", id},   {"series", series}, {"x_title", "step"},      {"y_title", y_title},
          {"x_min", 0}, {"points", true},   {"lines", json::array()}, {"x_max", steps.back()}};
}

Section refusal(const std::string& title, const std::string& reason) {
  return {.title = title, .remarks = {{"Not measured: " + reason + "."}}};
}

std::vector<std::string> expert_names(const Analysis& a) {
  std::vector<std::string> out;
  for (std::int64_t e = 0; e < a.config.total_experts(); ++e) out.push_back(fmt::to_string(e));
  return out;
}

std::vector<Section> routing_sections(const Analysis& a) {
  return {flips_section(a), frequency_section(a), tokens_section(a), domains_section(a)};
}

}  // namespace penstock::report
