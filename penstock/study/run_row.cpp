// Rows to JSON and back.
#include "penstock/study/run_row.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>

#include "penstock/routers/logged_states.h"
#include "penstock/study/json_field.h"
#include "penstock/study/statistics.h"

namespace penstock::study {
namespace {

using nlohmann::json;

const json& object_at(const json& object, const char* key, const std::string& where) {
  static const json none = json::object();
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return none;
  PENSTOCK_CHECK(it->is_object(), where, ": '", key, "' is not an object");
  return *it;
}

json optional_json(const std::optional<double>& value) { return value ? json(*value) : json(); }
json optional_json(const std::optional<std::int64_t>& value) {
  return value ? json(*value) : json();
}

std::optional<std::int64_t> optional_step(const json& object, const char* key,
                                          const std::string& where) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return std::nullopt;
  PENSTOCK_CHECK(it->is_number_integer(), where, ": '", key, "' is not a whole number");
  return it->get<std::int64_t>();
}

std::map<std::string, Curve> curves_from_json(const json& object, const std::string& where) {
  std::map<std::string, Curve> curves;
  for (const auto& [name, curve] : object.items()) {
    PENSTOCK_CHECK(curve.is_object() && curve.contains("steps") && curve.contains("values"), where,
                   ": curve '", name, "' needs steps and values");
    Curve& out = curves[name];
    out.steps = numbers(curve["steps"], where);
    out.values = numbers(curve["values"], where);
    PENSTOCK_CHECK(out.steps.size() == out.values.size(), where, ": curve '", name,
                   "' has unequal numbers of steps and values");
  }
  return curves;
}

}  // namespace

bool steered(const std::map<std::string, Curve>& curves) {
  return std::ranges::any_of(curves,
                             [](const auto& curve) { return steers_sparsity(curve.first); });
}

Matrix matrix(const json& array, const std::string& where) {
  PENSTOCK_CHECK(array.is_array(), where, ": expected rows of numbers");
  Matrix out;
  for (const auto& row : array) out.push_back(numbers(row, where));
  return out;
}

double imbalance(const Matrix& load) {
  double sum = 0, layers = 0;
  for (const auto& layer : load)
    if (const Spread s = spread(layer); s.mean > 0 && s.sd) {
      sum += *s.sd / s.mean;
      ++layers;
    }
  return layers > 0 ? sum / layers : NAN;
}

std::optional<std::string> auxiliary_loss(const std::string& curve) {
  if (!curve.starts_with(kAuxiliaryLosses)) return std::nullopt;
  return curve.substr(kAuxiliaryLosses.size());
}

double RunRow::tokens_per_step() const {
  double tokens = 1;
  for (const char* key : {"train.batch_sequences", "train.sequence_length"}) {
    const auto it = settings.find(key);
    tokens *= it == settings.end() ? 0 : std::atof(it->second.c_str());
  }
  return tokens;
}

std::optional<double> Evaluation::active_experts() const {
  if (active_by_layer.empty()) return std::nullopt;
  return std::accumulate(active_by_layer.begin(), active_by_layer.end(), 0.0) /
         static_cast<double>(active_by_layer.size());
}

json to_json(const Evaluation& evaluation) {
  json domains = json::object();
  for (const auto& [name, domain] : evaluation.by_domain)
    domains[name] = {
        {"loss", domain.loss}, {"bits_per_byte", domain.bits_per_byte}, {"tokens", domain.tokens}};
  json out = {{"loss", evaluation.loss},
              {"bits_per_byte", evaluation.bits_per_byte},
              {"tokens", evaluation.tokens},
              {"by_domain", domains}};
  if (!evaluation.load.empty()) out["load"] = evaluation.load;
  if (!evaluation.load_by_domain.empty()) out["load_by_domain"] = evaluation.load_by_domain;
  if (!evaluation.active_by_layer.empty()) out["active_by_layer"] = evaluation.active_by_layer;
  if (!evaluation.active_by_layer_domain.empty())
    out["active_by_layer_domain"] = evaluation.active_by_layer_domain;
  return out;
}

Evaluation evaluation_from_json(const json& object, const std::string& where) {
  PENSTOCK_CHECK(object.is_object(), where, ": expected an object with the measured split");
  Evaluation out;
  out.loss = required_number(object, "loss", where);
  out.bits_per_byte = number_or(object, "bits_per_byte", 0, where);
  out.tokens = number_or(object, "tokens", 0, where);
  for (const auto& [name, domain] : object_at(object, "by_domain", where).items()) {
    PENSTOCK_CHECK(domain.is_object(), where, ": domain '", name, "' is not an object");
    out.by_domain[name] = {.loss = required_number(domain, "loss", where),
                           .bits_per_byte = number_or(domain, "bits_per_byte", 0, where),
                           .tokens = number_or(domain, "tokens", 0, where)};
  }
  if (object.contains("load")) out.load = matrix(object["load"], where);
  for (const auto& [name, load] : object_at(object, "load_by_domain", where).items())
    out.load_by_domain[name] = matrix(load, where);
  if (object.contains("active_by_layer"))
    out.active_by_layer = numbers(object["active_by_layer"], where);
  for (const auto& [name, active] : object_at(object, "active_by_layer_domain", where).items())
    out.active_by_layer_domain[name] = numbers(active, where);
  return out;
}

json to_json(const RunRow& row) {
  json curves = json::object();
  for (const auto& [name, curve] : row.curves)
    curves[name] = {{"steps", curve.steps}, {"values", curve.values}};
  json out = {{"variant", row.variant},
              {"label", row.label},
              {"seed", row.seed},
              {"config_hash", row.config_hash},
              {"finished", row.finished},
              {"steps", row.steps},
              {"total_parameters", row.total_parameters},
              {"active_parameters", row.active_parameters},
              {"flops_per_token", row.flops_per_token},
              {"total_flops", row.total_flops},
              {"tokens_per_second", row.tokens_per_second},
              {"share_of_peak", row.share_of_peak},
              {"peak_bytes", row.peak_bytes},
              {"seconds", row.seconds},
              {"peak_flops", row.peak_flops},
              {"machine", row.machine},
              {"finished_at", row.finished_at},
              {"causal", row.causal},
              {"target_sparsity", optional_json(row.target_sparsity)},
              {"validation", row.validation ? to_json(*row.validation) : json()},
              {"test", row.test ? to_json(*row.test) : json()},
              {"sparsifying_step", optional_json(row.stages.sparsifying)},
              {"settled_step", optional_json(row.stages.settled)},
              {"warnings", row.warnings},
              {"curves", curves},
              {"settings", row.settings}};
  if (row.by_k) out.update(to_json(*row.by_k));
  if (row.by_k_folded) out["folded"] = to_json(*row.by_k_folded);
  if (row.routers) out["routers"] = to_json(*row.routers);
  for (const auto& one : row.finetuned) out["finetuned"].push_back(to_json(one));
  return out;
}

RunRow row_from_json(const json& object, const std::string& where) {
  PENSTOCK_CHECK(object.is_object(), where, ": a row is not an object");
  RunRow row;
  row.variant = string_or(object, "variant", "", where);
  PENSTOCK_CHECK(!row.variant.empty(), where, ": a row has no variant");
  row.label = string_or(object, "label", row.variant, where);
  const auto seed = optional_step(object, "seed", where);
  PENSTOCK_CHECK(seed, where, ": the row of '", row.variant, "' has no seed");
  row.seed = *seed;
  row.config_hash = string_or(object, "config_hash", "", where);
  row.finished = object.value("finished", json(false)) == json(true);
  row.steps = optional_step(object, "steps", where).value_or(0);
  row.total_parameters = number_or(object, "total_parameters", 0, where);
  row.active_parameters = number_or(object, "active_parameters", 0, where);
  row.flops_per_token = number_or(object, "flops_per_token", 0, where);
  row.total_flops = number_or(object, "total_flops", 0, where);
  row.tokens_per_second = number_or(object, "tokens_per_second", 0, where);
  row.share_of_peak = number_or(object, "share_of_peak", 0, where);
  row.peak_bytes = number_or(object, "peak_bytes", 0, where);
  row.seconds = number_or(object, "seconds", 0, where);
  row.peak_flops = number_or(object, "peak_flops", 0, where);
  row.machine = string_or(object, "machine", "", where);
  row.finished_at = string_or(object, "finished_at", "", where);
  row.causal = object.value("causal", json(true)) != json(false);
  if (object.contains("target_sparsity") && !object["target_sparsity"].is_null())
    row.target_sparsity = required_number(object, "target_sparsity", where);
  if (object.contains("validation") && !object["validation"].is_null())
    row.validation = evaluation_from_json(object["validation"], where + ": validation");
  if (object.contains("test") && !object["test"].is_null())
    row.test = evaluation_from_json(object["test"], where + ": test");
  row.by_k = measured_k_from_json(object, where);
  row.by_k_folded = measured_k_from_json(object_at(object, "folded", where), where + ": folded");
  if (object.contains("routers"))
    row.routers = router_report_from_json(object["routers"], where + ": routers");
  if (object.contains("finetuned")) {
    PENSTOCK_CHECK(object["finetuned"].is_array(), where, ": 'finetuned' is not a list");
    for (const auto& one : object["finetuned"])
      row.finetuned.push_back(finetuned_from_json(one, where + ": finetuned"));
  }
  row.warnings = strings_at(object, "warnings", where);
  row.stages.sparsifying = optional_step(object, "sparsifying_step", where);
  row.stages.settled = optional_step(object, "settled_step", where);
  row.curves = curves_from_json(object_at(object, "curves", where), where);
  for (const auto& [key, value] : object_at(object, "settings", where).items()) {
    PENSTOCK_CHECK(value.is_string(), where, ": setting '", key, "' is not a string");
    row.settings[key] = value.get<std::string>();
  }
  return row;
}

}  // namespace penstock::study
