// The page of an analysis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "penstock/analysis/analysis.h"
#include "penstock/report/analysis_sections.h"
#include "penstock/report/html.h"
#include "penstock/report/page.h"
#include "penstock/report/pages.h"

namespace penstock::report {

using namespace study;

namespace {

using analysis::Analysis;
using analysis::JacobianSummary;
using analysis::Snapshot;
using nlohmann::json;

Section entropy_section(const Analysis& a) {
  if (!a.refused.entropy.empty()) return refusal("Router entropy", a.refused.entropy);
  const auto experts = a.config.total_experts();
  const double most = std::log(static_cast<double>(experts));
  Table table{.title = "Mean ± sd over tokens",
              .note =
                  "sd is over tokens, so it says how routers differ from token to token, not "
                  "how sure the mean is.",
              .columns = {"layer"}};
  for (const Snapshot& snapshot : a.snapshots) table.columns.emplace_back(step_text(snapshot.step));
  for (std::size_t l = 0; l < a.here().measures.layers.size(); ++l) {
    TableRow& row = table.rows.emplace_back();
    row.cells = {fmt::to_string(a.model_layer(l))};
    for (const Snapshot& snapshot : a.snapshots) {
      const auto& entropy = *snapshot.measures.layers[l].entropy;
      row.cells.emplace_back(fmt::format("{:.4f} ± {:.2f}", entropy.mean(), entropy.sd()));
    }
  }
  Section out{.title = "Router entropy",
              .tables = {std::move(table)},
              .note = fmt::format("Of softmax over all {} logits, in nats; the most is ln {} = "
                                  "{:.4f}, every expert as likely as another.",
                                  experts, experts, most)};
  if (a.snapshots.size() == 1) return out;
  // The entropy itself would be an almost flat line just below ln E.
  out.charts.push_back(
      {.title = "Distance from uniform over training",
       .caption = "How far the entropy is below the most that is possible; 0: every expert is as "
                  "likely as another. Step 0 is the model as its seed initialises it.",
       .drawn = over_steps(a, "entropy", fmt::format("ln {} − entropy, nats", experts).c_str(),
                           [&](std::size_t l, std::size_t i) {
                             return most - a.snapshots[i].measures.layers[l].entropy->mean();
                           })});
  out.charts.back().drawn["y_min"] = 0;
  return out;
}

Section samples_section(const Analysis& a) {
  if (!a.refused.samples.empty()) return refusal("Sample tokens", a.refused.samples);
  Section out{.title = "Distributions of sample tokens",
              .note =
                  "softmax over all logits at evenly spaced tokens of the split, not chosen by "
                  "hand. The title ends with the token itself. The maps have percent for each "
                  "expert (columns), by layer (rows)."};
  double max = 0;
  for (const auto& sample : a.samples)
    for (const auto& layer : sample.probabilities)
      max = std::max(max, *std::ranges::max_element(layer));
  for (std::size_t s = 0; s < a.samples.size(); ++s) {
    HeatMap map{.columns = expert_names(a), .max = max, .scale = 100, .unit = " %"};
    json series = json::array();
    for (std::size_t l = 0; l < a.samples[s].probabilities.size(); ++l) {
      std::vector<double> sorted = a.samples[s].probabilities[l], ranks(sorted.size());
      map.rows.push_back({layer_name(a, l), sorted, ""});
      std::ranges::sort(sorted, std::greater());
      std::iota(ranks.begin(), ranks.end(), 1);
      series.push_back(
          {{"variant", l}, {"label", layer_name(a, l)}, {"steps", ranks}, {"values", sorted}});
    }
    const std::string title =
        fmt::format("Token {}: …{}", a.samples[s].token, a.samples[s].context);
    out.maps.push_back({.name = title, .map = std::move(map)});
    out.charts.push_back({.title = title,
                          .caption = "By probability.",
                          .drawn = {{"id", fmt::format("sample-{}", s)},
                                    {"series", series},
                                    {"x_title", "expert, by probability"},
                                    {"x_name", "rank "},
                                    {"y_title", "probability"},
                                    {"points", true},
                                    {"x_min", 1},
                                    {"y_min", 0},
                                    {"y_max", max}}});
  }
  return out;
}

Section expert_load_section(const Analysis& a) {
  if (!a.refused.load.empty()) return refusal("Expert load", a.refused.load);
  HeatMap map{.columns = expert_names(a), .max = 0, .scale = 100, .unit = " % of assignments"};
  Table table{.title = "Evenness",
              .note = "Standard deviation of the shares over experts ÷ their mean: 0 is even.",
              .columns = {"layer", "active per token", "coefficient of variation", "idle experts"}};
  for (std::size_t l = 0; l < a.here().measures.layers.size(); ++l) {
    const auto& load = *a.here().measures.layers[l].load;
    map.max = std::max(map.max, *std::ranges::max_element(load.share));
    map.rows.push_back({layer_name(a, l), load.share, ""});
    table.rows.push_back({{fmt::to_string(a.model_layer(l)), fixed(3)(load.active),
                           fixed(3)(load.variation), fmt::to_string(load.idle)}});
  }
  return {.title = "Expert load",
          .tables = {std::move(table)},
          .maps = {{.name = "Share of assignments",
                    .map = std::move(map),
                    .caption = "Percent of a layer's assignments."}}};
}

Section similarity_section(const Analysis& a) {
  Table table{.title = "Mean over pairs of experts",
              .note =
                  "All experts on the same tokens, whatever the router chose. CKA also sees "
                  "outputs that are rotations of one another; weights of experts that compute "
                  "the same may still differ.",
              .columns = {"layer", "", "output cosine", "output CKA", "weight cosine"}};
  for (std::size_t l = 0; l < a.here().measures.layers.size(); ++l)
    for (const Snapshot& snapshot : a.snapshots) {
      const auto& s = snapshot.measures.layers[l].similarity;
      table.rows.push_back(
          {{fmt::to_string(a.model_layer(l)), step_text(snapshot.step), fixed(4)(s.output_cosine),
            fixed(4)(s.output_cka), fixed(4)(s.weight_cosine)}});
    }
  Section out{.title = "Similarity of experts",
              .tables = {std::move(table)},
              .note = "1 would be collapse: all experts answer alike."};
  if (a.snapshots.size() > 1)
    out.charts.push_back(
        {.title = "Output cosine over training",
         .drawn = over_steps(a, "similarity", "cosine", [&](std::size_t l, std::size_t i) {
           return a.snapshots[i].measures.layers[l].similarity.output_cosine;
         })});
  return out;
}

std::string range_text(std::int64_t least, std::int64_t most) {
  return least == most ? fmt::to_string(least) : fmt::format("{} to {}", least, most);
}

Section jacobian_section(const Analysis& a) {
  if (!a.refused.jacobian.empty()) return refusal("Jacobian", a.refused.jacobian);
  const auto k_text = [](std::int64_t k) { return k > 0 ? fmt::to_string(k) : "varies"; };
  Table ranks{
      .title = "Rank of J₂ = Σ E_j ⊗ ∂g_j/∂x",
      .note = fmt::format("f64, {} tokens. Share: ‖J₂‖ / (‖J₁‖ + ‖J₂‖). Error: of the "
                          "closed form against autograd.",
                          a.jacobians[0][0].tokens),
      .columns = {"layer", "k", "at a token", "bound", "all tokens", "bound", "share", "error"}};
  for (std::size_t l = 0; l < a.jacobians.size(); ++l)
    for (const JacobianSummary& s : a.jacobians[l])
      ranks.rows.push_back({{fmt::to_string(a.model_layer(l)), k_text(s.k),
                             range_text(s.least, s.most), range_text(s.bound_least, s.bound_most),
                             fmt::to_string(s.together), fmt::to_string(s.span_bound),
                             fixed(3)(s.share), fmt::format("{:.0e}", s.closed_error)}});
  Section out{.title = "The Jacobian’s second term",
              .tables = {std::move(ranks)},
              .note =
                  "y = Σ g_j(x) E_j(x) has the Jacobian J₁ + J₂, J₁ = Σ g_j ∂E_j/∂x. At fixed "
                  "router weights the rows of J₂ span at most k − 1 directions where the "
                  "softmax is over the k kept logits, k where it is over all, and as many as "
                  "experts are on with ReLU."};
  if (a.growth.empty()) return out;
  out.charts.push_back(
      {.title = "Span of the router's rows over checkpoints",
       .caption = "Effective rank of the rows of all checkpoints up to a step, stacked. A frozen "
                  "router's line is flat.",
       .drawn = over_steps(a, "span", "effective rank", [&](std::size_t l, std::size_t i) {
         return a.growth[l].front().growth.router[i].effective;
       })});
  Table growth{
      .title = "At one token, ∂g/∂x stacked over checkpoints",
      .note = "Mean over tokens; the same token vectors for every checkpoint's router.",
      .columns = {"layer", "k", "rank, first", "rank, all", "effective, first", "effective, all"}};
  for (std::size_t l = 0; l < a.growth.size(); ++l)
    for (const auto& [k, bound, one] : a.growth[l])
      growth.rows.push_back(
          {{fmt::to_string(a.model_layer(l)), k_text(k), fixed(1)(one.token_rank.front()),
            fixed(1)(one.token_rank.back()), fixed(2)(one.token_effective.front()),
            fixed(2)(one.token_effective.back())}});
  out.tables.push_back(std::move(growth));
  return out;
}

}  // namespace

std::string analysis_page(const Analysis& a) {
  const std::string title = "Routing of " + a.model;
  std::string body = heading(
      title, "",
      {{"Model", step_text(a.here().step)},
       {"Method", a.config.router.method},
       {"Experts",
        fmt::format("{}, {:g} active", a.config.total_experts(), a.config.active_experts())},
       {"Split", fmt::format("{}, {} tokens", a.split, a.here().measures.tokens)},
       {"Loss", fmt::format("{:.4f} nats per token", a.here().measures.loss)}});
  std::vector<Section> sections{entropy_section(a), samples_section(a), expert_load_section(a)};
  for (Section& section : routing_sections(a)) sections.push_back(std::move(section));
  sections.push_back(similarity_section(a));
  sections.push_back(gradient_section(a));
  sections.push_back(jacobian_section(a));
  std::vector<Chart> charts;
  for (const Section& section : sections) {
    body += section_html(section);
    charts.insert(charts.end(), section.charts.begin(), section.charts.end());
  }
  return page(title, body + kNoScript, drawn_by_script(charts));
}

}  // namespace penstock::report
