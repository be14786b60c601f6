// Writes an analysis as JSON, with the names of docs/analysis.md.
#include <cmath>
#include <nlohmann/json.hpp>

#include "penstock/analysis/analysis.h"

namespace penstock::analysis {
namespace {

using Json = nlohmann::ordered_json;

Json step_json(const std::optional<std::int64_t>& step) { return step ? Json(*step) : Json(); }

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json moments_json(const Moments& moments) {
  return {{"mean", moments.mean()}, {"sd", moments.sd()}, {"rows", moments.count()}};
}

Json gradient_json(const RouterGradient& gradient) {
  Json out = {{"gate_sum", moments_json(gradient.gate_sum)},
              {"log_gate_sum", moments_json(gradient.log_gate_sum)},
              {"logits", gradient.logits},
              {"along_gate_sum", number(gradient.along_gate_sum)},
              {"matrix", Json()}};
  if (const auto& matrix = gradient.matrix)
    out["matrix"] = {
        {"norm", matrix->weight_norm}, {"size", matrix->size}, {"direction", matrix->direction}};
  return out;
}

Json layer_json(std::size_t index, const LayerMeasures& layer) {
  Json out = {{"layer", index}};
  if (layer.entropy) out["entropy"] = moments_json(*layer.entropy);
  if (layer.load)
    out["load"] = {{"share", layer.load->share},
                   {"variation", layer.load->variation},
                   {"idle", layer.load->idle},
                   {"active", layer.load->active}};
  out["similarity"] = {{"output_cosine", layer.similarity.output_cosine},
                       {"output_cka", layer.similarity.output_cka},
                       {"weight_cosine", layer.similarity.weight_cosine}};
  if (layer.gradient) out["gradient"] = gradient_json(*layer.gradient);
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

Json flips_json(const Analysis& analysis) {
  const auto experts = static_cast<double>(analysis.config.total_experts());
  Json between = Json::array();
  for (const FlipsBetween& one : analysis.flips)
    between.push_back({{"from", one.from},
                       {"to", one.to},
                       {"rate", one.rate},
                       {"count", one.rate * experts},
                       {"layers", one.layers}});
  return {{"tokens", analysis.flip_tokens}, {"between", between}};
}

Json moments_json(const ActiveMoments& moments) {
  Json out = {{"places", moments.places}, {"mean", Json()}, {"sd", Json()}};
  if (moments.places > 0) out["mean"] = moments.mean, out["sd"] = moments.sd;
  return out;
}

Json correlation_json(const ActiveCorrelation& c) {
  return {{"frequency", number(c.frequency)},
          {"surprisal", number(c.surprisal)},
          {"frequency_with_surprisal", number(c.together)},
          {"frequency_partial", number(c.frequency_partial)},
          {"surprisal_partial", number(c.surprisal_partial)},
          {"per_doubling", number(c.per_doubling)},
          {"per_nat", number(c.per_nat)}};
}

Json frequency_json(const std::optional<FrequencyReport>& report) {
  if (!report) return Json::object();
  Json out = {{"places", report->places},
              {"by_frequency", Json::array()},
              {"by_surprisal", Json::array()},
              {"correlation", correlation_json(report->whole)},
              {"layers", Json::array()}};
  for (const FrequencyBin& bin : report->by_frequency) {
    Json row = {{"least", bin.least}, {"tokens", bin.tokens}};
    row.update(moments_json(bin.active));
    row["by_surprisal"] = Json::array();
    for (const ActiveMoments& cell : bin.by_surprisal)
      row["by_surprisal"].push_back(moments_json(cell));
    out["by_frequency"].push_back(row);
  }
  for (const SurprisalBin& bin : report->by_surprisal) {
    Json row = {{"least", bin.least}, {"limit", number(bin.limit)}};
    row.update(moments_json(bin.active));
    out["by_surprisal"].push_back(row);
  }
  for (std::size_t l = 0; l < report->layers.size(); ++l) {
    Json row = {{"layer", l}};
    row.update(correlation_json(report->layers[l]));
    out["layers"].push_back(row);
  }
  return out;
}

Json tokens_json(const std::vector<ListedToken>& tokens) {
  Json out = Json::array();
  for (const ListedToken& one : tokens)
    out.push_back(
        {{"token", one.id}, {"text", one.text}, {"count", one.count}, {"share", one.value}});
  return out;
}

Json token_experts_json(const Analysis& analysis) {
  Json out = Json::array();
  for (std::size_t l = 0; l < analysis.experts.size(); ++l) {
    Json experts = Json::array();
    for (std::size_t e = 0; e < analysis.experts[l].size(); ++e)
      experts.push_back({{"expert", e},
                         {"commonest", tokens_json(analysis.experts[l][e].commonest)},
                         {"surest", tokens_json(analysis.experts[l][e].surest)}});
    out.push_back({{"layer", l}, {"experts", experts}});
  }
  return out;
}

Json domains_json(const Analysis& analysis) {
  const auto& domains = analysis.here().measures.domains;
  const auto experts = static_cast<double>(analysis.config.total_experts());
  Json list = Json::array();
  for (const DomainRouting& domain : domains) {
    Json layers = Json::array();
    for (std::size_t l = 0; l < domain.load.size(); ++l)
      layers.push_back({{"layer", l},
                        {"active", domain.active[l]},
                        {"load", domain.load[l]},
                        {"share", domain.share(l)}});
    list.push_back({{"domain", domain.name},
                    {"tokens", domain.tokens},
                    {"loss", domain.loss},
                    {"layers", layers}});
  }
  return {{"domains", list},
          {"divergence", domain_divergence(domains)},
          {"marks",
           {{"share", 1 / experts},
            {"load", analysis.config.active_experts() / experts},
            {"inactive", kInactiveLoad}}}};
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
              {"expert_layers", analysis.config.moe_layer_indices()},
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
  out["flips"] = flips_json(analysis);
  out["token_frequency"] = frequency_json(analysis.here().measures.by_frequency);
  out["token_experts"] = token_experts_json(analysis);
  out["domains"] = domains_json(analysis);
  out["refused"] = Json::object();
  const Refusals& refused = analysis.refused;
  const std::pair<const char*, std::string> parts[] = {
      {"entropy", refused.entropy},    {"load", refused.load},         {"samples", refused.samples},
      {"jacobian", refused.jacobian},  {"gradient", refused.gradient}, {"flips", analysis.no_flips},
      {"domains", analysis.one_domain}};
  for (const auto& [part, reason] : parts)
    if (!reason.empty()) out["refused"][part] = reason;
  return out;
}

}  // namespace penstock::analysis
