// An analysis and the published tables as JSON, under the names of docs/analysis.md.
#include <cmath>
#include <nlohmann/json.hpp>

#include "penstock/analysis/analysis.h"
#include "penstock/analysis/published_tables.h"

namespace penstock::analysis {
namespace {

using Json = nlohmann::ordered_json;

Json step_json(const std::optional<std::int64_t>& step) { return step ? Json(*step) : Json(); }

Json layer_json(std::size_t index, const LayerMeasures& layer) {
  Json out = {{"layer", index}};
  if (layer.entropy)
    out["entropy"] = {{"mean", layer.entropy->mean()},
                      {"sd", layer.entropy->sd()},
                      {"rows", layer.entropy->count()}};
  if (layer.load)
    out["load"] = {{"share", layer.load->share},
                   {"variation", layer.load->variation},
                   {"idle", layer.load->idle},
                   {"active", layer.load->active}};
  out["similarity"] = {{"output_cosine", layer.similarity.output_cosine},
                       {"output_cka", layer.similarity.output_cka},
                       {"weight_cosine", layer.similarity.weight_cosine}};
  return out;
}

Json jacobian_json(std::size_t layer, const JacobianSummary& summary) {
  return {{"layer", layer},
          {"k", summary.k > 0 ? Json(summary.k) : Json()},
          {"tokens", summary.tokens},
          {"rank", {summary.least, summary.most}},
          {"bound", {summary.bound_least, summary.bound_most}},
          {"rank_together", summary.together},
          {"bound_together", summary.span_bound},
          {"share", summary.share},
          {"sum_error", summary.sum_error},
          {"closed_form_error", summary.closed_error},
          {"bounds_hold", summary.bounds_hold}};
}

Json growth_json(const Analysis& analysis, std::size_t layer) {
  Json router = Json::array(), tokens = Json::array();
  const auto& by_k = analysis.growth[layer];
  for (std::size_t i = 0; i < analysis.snapshots.size(); ++i)
    router.push_back({{"step", step_json(analysis.snapshots[i].step)},
                      {"rank", by_k.front().growth.router[i].numerical},
                      {"effective_rank", by_k.front().growth.router[i].effective}});
  for (const LayerGrowth& one : by_k) {
    Json after = Json::array();
    for (std::size_t i = 0; i < analysis.snapshots.size(); ++i)
      after.push_back({{"step", step_json(analysis.snapshots[i].step)},
                       {"rank", one.growth.token_rank[i]},
                       {"effective_rank", one.growth.token_effective[i]}});
    tokens.push_back({{"k", one.k > 0 ? Json(one.k) : Json()},
                      {"bound", one.k > 0 ? Json(one.bound) : Json()},
                      {"after", after}});
  }
  return {{"layer", layer}, {"router", router}, {"tokens", tokens}};
}

}  // namespace

Json to_json(const Analysis& analysis) {
  const auto experts = analysis.config.total_experts();
  Json out = {{"model", analysis.model},
              {"step", step_json(analysis.here().step)},
              {"split", analysis.split},
              {"tokens", analysis.here().measures.tokens},
              {"method", analysis.config.router.method},
              {"experts", experts},
              {"active_experts", analysis.config.active_experts()},
              {"most_entropy", std::log(static_cast<double>(experts))},
              {"snapshots", Json::array()}};
  for (const Snapshot& snapshot : analysis.snapshots) {
    Json layers = Json::array();
    for (std::size_t l = 0; l < snapshot.measures.layers.size(); ++l)
      layers.push_back(layer_json(l, snapshot.measures.layers[l]));
    out["snapshots"].push_back(
        {{"step", step_json(snapshot.step)}, {"loss", snapshot.measures.loss}, {"layers", layers}});
  }
  out["samples"] = Json::array();
  for (const SampleToken& sample : analysis.samples)
    out["samples"].push_back({{"token", sample.token},
                              {"context", sample.context},
                              {"probabilities", sample.probabilities},
                              {"gates", sample.gates}});
  out["jacobian"] = Json::array();
  for (std::size_t l = 0; l < analysis.jacobians.size(); ++l)
    for (const JacobianSummary& summary : analysis.jacobians[l])
      out["jacobian"].push_back(jacobian_json(l, summary));
  out["span"] = Json::array();
  for (std::size_t l = 0; l < analysis.growth.size(); ++l)
    out["span"].push_back(growth_json(analysis, l));
  out["refused"] = Json::object();
  const Refusals& refused = analysis.refused;
  const std::pair<const char*, std::string> parts[] = {{"entropy", refused.entropy},
                                                       {"load", refused.load},
                                                       {"samples", refused.samples},
                                                       {"jacobian", refused.jacobian}};
  for (const auto& [part, reason] : parts)
    if (!reason.empty()) out["refused"][part] = reason;
  return out;
}

Json to_json(const PublishedTable& table) {
  Json cells = Json::array();
  for (const PublishedCell& cell : table.cells)
    cells.push_back({{"row", cell.row},
                     {"column", cell.column},
                     {"published", cell.published},
                     {"computed", cell.computed},
                     {"useful", cell.useful},
                     {"agrees", cell.agrees},
                     {"remark", cell.remark}});
  return {{"table", table.name}, {"title", table.title}, {"unit", table.unit}, {"cells", cells}};
}

}  // namespace penstock::analysis
