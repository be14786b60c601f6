// Converts a point's figures to JSON and back.
#include "penstock/eval/k_figures.h"

#include <nlohmann/json.hpp>

#include "penstock/base/error.h"

namespace penstock {
namespace {

double figure(const nlohmann::json& object, const char* key, const std::string& where) {
  const auto it = object.find(key);
  PENSTOCK_CHECK(it != object.end() && it->is_number(), where, ": the number '", key,
                 "' is missing");
  return it->get<double>();
}

}  // namespace

nlohmann::ordered_json to_json(const KFigures& figures) {
  return {{"k", figures.k > 0 ? nlohmann::ordered_json(figures.k) : nlohmann::ordered_json()},
          {"loss", figures.loss},
          {"perplexity", figures.perplexity},
          {"bits_per_byte", figures.bits_per_byte},
          {"flops_per_token", figures.flops_per_token},
          {"tokens_per_second", figures.tokens_per_second},
          {"peak_memory_bytes", figures.peak_memory_bytes}};
}

KFigures k_figures_from_json(const nlohmann::json& object, const std::string& where) {
  PENSTOCK_CHECK(object.is_object() && object.contains("k"), where, ": a point without k");
  const auto& k = object["k"];
  PENSTOCK_CHECK(k.is_null() || (k.is_number_integer() && k.get<std::int64_t>() > 0), where,
                 ": k is neither a number of experts nor null");
  return {.k = k.is_null() ? 0 : k.get<std::int64_t>(),
          .loss = figure(object, "loss", where),
          .perplexity = figure(object, "perplexity", where),
          .bits_per_byte = figure(object, "bits_per_byte", where),
          .flops_per_token = figure(object, "flops_per_token", where),
          .tokens_per_second = figure(object, "tokens_per_second", where),
          .peak_memory_bytes = figure(object, "peak_memory_bytes", where)};
}

}  // namespace penstock
