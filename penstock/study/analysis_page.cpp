#include "penstock/study/analysis_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "penstock/study/html.h"
#include "penstock/study/page.h"

namespace penstock::study {
namespace {

using analysis::Analysis;
using analysis::JacobianSummary;
using analysis::LayerMeasures;
using analysis::Snapshot;
using nlohmann::json;

std::string step_text(const std::optional<std::int64_t>& step) {
  return step ? fmt::format("step {}", *step) : "this model";
}

std::string card(const std::string& title, const std::string& body, const std::string& caption) {
  return fmt::format("<figure class=\"card\"><h3>{}</h3>{}<figcaption>{}</figcaption></figure>",
                     escape(title), body, escape(caption));
}

std::string refusal(const char* what, const std::string& reason) {
  return fmt::format("<h2>{}</h2><p class=\"note\">Not measured: {}.</p>", what, escape(reason));
}

/// One line a layer over the snapshots.
json over_steps(const Analysis& a, const char* id, const char* y_title,
                const std::function<double(std::size_t layer, std::size_t snapshot)>& value) {
  json series = json::array(), steps = json::array();
  for (const Snapshot& snapshot : a.snapshots) steps.push_back(snapshot.step.value_or(0));
  for (std::size_t l = 0; l < a.here().measures.layers.size(); ++l) {
    json values = json::array();
    for (std::size_t i = 0; i < a.snapshots.size(); ++i) values.push_back(value(l, i));
    series.push_back({{"variant", l},
                      {"label", fmt::format("layer {}", l)},
                      {"steps", steps},
                      {"values", values}});
  }
  return {{"id", id},   {"series", series}, {"x_title", "step"},      {"y_title", y_title},
          {"x_min", 0}, {"points", true},   {"lines", json::array()}, {"x_max", steps.back()}};
}

std::string entropy_section(const Analysis& a, json& charts) {
  if (!a.refused.entropy.empty()) return refusal("Router entropy", a.refused.entropy);
  std::vector<std::string> head{"layer"};
  for (const Snapshot& snapshot : a.snapshots) head.push_back(step_text(snapshot.step));
  std::vector<std::vector<std::string>> rows{head};
  for (std::size_t l = 0; l < a.here().measures.layers.size(); ++l) {
    rows.push_back({fmt::to_string(l)});
    for (const Snapshot& snapshot : a.snapshots) {
      const auto& entropy = *snapshot.measures.layers[l].entropy;
      rows.back().push_back(fmt::format("{:.4f} ± {:.2f}", entropy.mean(), entropy.sd()));
    }
  }
  const auto experts = a.config.total_experts();
  const double most = std::log(static_cast<double>(experts));
  std::string cards = card("Mean ± sd over tokens", cell_table(rows),
                           "sd is over tokens, so it says how routers differ from token to token, "
                           "not how sure the mean is.");
  if (a.snapshots.size() > 1) {
    // The entropy itself would be a level line just below ln E.
    json chart = over_steps(a, "entropy", fmt::format("ln {} − entropy, nats", experts).c_str(),
                            [&](std::size_t l, std::size_t i) {
                              return most - a.snapshots[i].measures.layers[l].entropy->mean();
                            });
    chart["y_min"] = 0;
    charts.push_back(std::move(chart));
    cards +=
        chart_card("entropy", "Distance from uniform over training",
                   "How far the entropy is below the most that is possible; 0: every expert is "
                   "as likely as another. Step 0 is the model as its seed initialises it.");
  }
  return fmt::format(
      "<h2>Router entropy</h2><p class=\"note\">Of softmax over all {} logits, in nats; the most "
      "is ln {} = {:.4f}, every expert as likely as another.</p><div class=\"grid\">{}</div>",
      experts, experts, most, cards);
}

std::string samples_section(const Analysis& a, json& charts) {
  if (!a.refused.samples.empty()) return refusal("Sample tokens", a.refused.samples);
  std::vector<std::string> names;
  double max = 0;
  for (std::int64_t e = 0; e < a.config.total_experts(); ++e) names.push_back(fmt::to_string(e));
  for (const auto& sample : a.samples)
    for (const auto& layer : sample.probabilities)
      max = std::max(max, *std::ranges::max_element(layer));
  std::string cards;
  for (std::size_t s = 0; s < a.samples.size(); ++s) {
    HeatMap map{.columns = names, .max = max, .scale = 100, .unit = " %"};
    json series = json::array();
    for (std::size_t l = 0; l < a.samples[s].probabilities.size(); ++l) {
      std::vector<double> sorted = a.samples[s].probabilities[l];
      map.rows.push_back({fmt::format("layer {}", l), sorted, ""});
      std::ranges::sort(sorted, std::greater());
      json ranks = json::array();
      for (std::size_t e = 1; e <= sorted.size(); ++e) ranks.push_back(e);
      series.push_back({{"variant", l},
                        {"label", fmt::format("layer {}", l)},
                        {"steps", ranks},
                        {"values", sorted}});
    }
    const std::string id = fmt::format("sample-{}", s);
    charts.push_back({{"id", id},
                      {"series", series},
                      {"x_title", "expert, by probability"},
                      {"x_name", "rank "},
                      {"y_title", "probability"},
                      {"points", true},
                      {"x_min", 1},
                      {"y_min", 0},
                      {"y_max", max}});
    const std::string title =
        fmt::format("Token {}: …{}", a.samples[s].token, a.samples[s].context);
    cards += card(title, heat_map(map), "Percent for each expert (columns), by layer (rows).") +
             chart_card(id, "The same, sorted", "");
  }
  return "<h2>Distributions of sample tokens</h2><p class=\"note\">softmax over all logits at "
         "evenly spaced tokens of the split, not chosen by hand. The title ends with the token "
         "itself.</p><div class=\"grid\">" +
         cards + "</div>";
}

std::string expert_load_section(const Analysis& a) {
  if (!a.refused.load.empty()) return refusal("Expert load", a.refused.load);
  HeatMap map{.max = 0, .digits = 0, .scale = 100, .unit = " % of assignments"};
  std::vector<std::vector<std::string>> rows{
      {"layer", "active per token", "coefficient of variation", "idle experts"}};
  for (std::int64_t e = 0; e < a.config.total_experts(); ++e)
    map.columns.push_back(fmt::to_string(e));
  for (std::size_t l = 0; l < a.here().measures.layers.size(); ++l) {
    const auto& load = *a.here().measures.layers[l].load;
    map.max = std::max(map.max, *std::ranges::max_element(load.share));
    map.rows.push_back({fmt::format("layer {}", l), load.share, ""});
    rows.push_back({fmt::to_string(l), fmt::format("{:.3f}", load.active),
                    fmt::format("{:.3f}", load.variation), fmt::to_string(load.idle)});
  }
  return "<h2>Expert load</h2><div class=\"grid\">" +
         card("Share of assignments", heat_map(map), "Percent of a layer's assignments.") +
         card("Evenness", cell_table(rows),
              "Standard deviation of the shares over experts ÷ their mean: 0 is even.") +
         "</div>";
}

std::string similarity_section(const Analysis& a, json& charts) {
  std::vector<std::vector<std::string>> rows{
      {"layer", "", "output cosine", "output CKA", "weight cosine"}};
  for (std::size_t l = 0; l < a.here().measures.layers.size(); ++l)
    for (const Snapshot& snapshot : a.snapshots) {
      const auto& s = snapshot.measures.layers[l].similarity;
      rows.push_back({fmt::to_string(l), step_text(snapshot.step),
                      fmt::format("{:.4f}", s.output_cosine), fmt::format("{:.4f}", s.output_cka),
                      fmt::format("{:.4f}", s.weight_cosine)});
    }
  std::string cards = card(
      "Mean over pairs of experts", cell_table(rows),
      "All experts on the same tokens, whatever the router chose. CKA also sees outputs that are "
      "rotations of one another; weights of experts that compute the same may still differ.");
  if (a.snapshots.size() > 1) {
    charts.push_back(over_steps(a, "similarity", "cosine", [&](std::size_t l, std::size_t i) {
      return a.snapshots[i].measures.layers[l].similarity.output_cosine;
    }));
    cards += chart_card("similarity", "Output cosine over training", "");
  }
  return "<h2>Similarity of experts</h2><p class=\"note\">1 would be collapse: all experts answer "
         "alike.</p><div class=\"grid\">" +
         cards + "</div>";
}

std::string range_text(std::int64_t least, std::int64_t most) {
  return least == most ? fmt::to_string(least) : fmt::format("{} to {}", least, most);
}

std::string jacobian_section(const Analysis& a, json& charts) {
  if (!a.refused.jacobian.empty()) return refusal("Jacobian", a.refused.jacobian);
  std::vector<std::vector<std::string>> rows{
      {"layer", "k", "at a token", "bound", "all tokens", "bound", "share", "error"}};
  for (std::size_t l = 0; l < a.jacobians.size(); ++l)
    for (const JacobianSummary& s : a.jacobians[l])
      rows.push_back({fmt::to_string(l), s.k > 0 ? fmt::to_string(s.k) : "varies",
                      range_text(s.least, s.most), range_text(s.bound_least, s.bound_most),
                      fmt::to_string(s.together), fmt::to_string(s.span_bound),
                      fmt::format("{:.3f}", s.share), fmt::format("{:.0e}", s.closed_error)});
  std::string cards = card(
      "Rank of J₂ = Σ E_j ⊗ ∂g_j/∂x", cell_table(rows),
      fmt::format("f64, {} tokens. Share: ‖J₂‖ / (‖J₁‖ + ‖J₂‖). Error: of the closed form against "
                  "autograd.",
                  a.jacobians[0][0].tokens));
  if (!a.growth.empty()) {
    charts.push_back(over_steps(a, "span", "effective rank", [&](std::size_t l, std::size_t i) {
      return a.growth[l].front().growth.router[i].effective;
    }));
    cards +=
        chart_card("span", "Span of the router's rows over checkpoints",
                   "Effective rank of the rows of all checkpoints up to a step, stacked. A frozen "
                   "router's line is flat.");
    std::vector<std::vector<std::string>> growth{
        {"layer", "k", "rank, first", "rank, all", "effective, first", "effective, all"}};
    for (std::size_t l = 0; l < a.growth.size(); ++l)
      for (const auto& one : a.growth[l])
        growth.push_back({fmt::to_string(l), one.k > 0 ? fmt::to_string(one.k) : "varies",
                          fmt::format("{:.1f}", one.growth.token_rank.front()),
                          fmt::format("{:.1f}", one.growth.token_rank.back()),
                          fmt::format("{:.2f}", one.growth.token_effective.front()),
                          fmt::format("{:.2f}", one.growth.token_effective.back())});
    cards += card("At one token, ∂g/∂x stacked over checkpoints", cell_table(growth),
                  "Mean over tokens; the same token vectors for every checkpoint's router.");
  }
  return "<h2>The Jacobian’s second term</h2><p class=\"note\">y = Σ g_j(x) E_j(x) has the "
         "Jacobian "
         "J₁ + J₂, J₁ = Σ g_j ∂E_j/∂x. At fixed router weights the rows of J₂ span at most k − 1 "
         "directions where the softmax is over the k kept logits, k where it is over all, and as "
         "many as experts are on with ReLU.</p><div class=\"grid\">" +
         cards + "</div>";
}

}  // namespace

std::string analysis_page(const Analysis& a) {
  json charts = json::array();
  std::string body = entropy_section(a, charts) + samples_section(a, charts);
  body += expert_load_section(a) + similarity_section(a, charts) + jacobian_section(a, charts);
  body +=
      "<noscript><p class=\"note\">The line charts need JavaScript; everything else is "
      "here.</p></noscript>";
  const std::string title = "Routing of " + a.model;
  const std::string facts =
      fact("Model", step_text(a.here().step)) + fact("Method", a.config.router.method) +
      fact("Experts",
           fmt::format("{}, {:g} active", a.config.total_experts(), a.config.active_experts())) +
      fact("Split", fmt::format("{}, {} tokens", a.split, a.here().measures.tokens)) +
      fact("Loss", fmt::format("{:.4f} nats per token", a.here().measures.loss));
  return page(title, "<h1>" + escape(title) + "</h1><dl class=\"facts\">" + facts + "</dl>" + body,
              {{"charts", charts}});
}

}  // namespace penstock::study
