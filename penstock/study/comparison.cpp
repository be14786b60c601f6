// Comparison to JSON and back.
#include "penstock/study/comparison.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/study/json_field.h"

namespace penstock::study {

std::string measure_title(const Comparison& comparison) {
  return comparison.measure == "perplexity" ? "perplexity" : "bits per byte";
}

std::int64_t k_of_name(const std::string& name) {
  if (name == "all") return 0;
  std::int64_t k = -1;
  if (name.size() < 2 || name[0] != 'k') return -1;
  const char* const end = name.data() + name.size();
  const auto [next, error] = std::from_chars(name.data() + 1, end, k);
  return error == std::errc() && next == end && k > 0 ? k : -1;
}

nlohmann::json to_json(const Comparison& comparison) {
  nlohmann::json published = nlohmann::json::object();
  for (const auto& [variant, numbers] : comparison.published)
    for (const auto& [k, value] : numbers)
      published[variant][k == 0 ? "all" : "k" + std::to_string(k)] = value;
  const Baseline& baseline = comparison.baseline;
  const bool has = baseline.bits_per_byte > 0;
  return {
      {"measure", comparison.measure},
      {"reference", comparison.reference},
      {"baseline", has ? nlohmann::json(baseline.name) : nlohmann::json()},
      {"baseline_bits_per_byte", has ? nlohmann::json(baseline.bits_per_byte) : nlohmann::json()},
      {"published", published}};
}

Comparison comparison_from_json(const nlohmann::json& object, const std::string& where) {
  Comparison out;
  out.measure = string_or(object, "measure", out.measure, where);
  out.reference = string_or(object, "reference", "", where);
  out.baseline.name = string_or(object, "baseline", out.baseline.name, where);
  out.baseline.bits_per_byte = number_or(object, "baseline_bits_per_byte", 0, where);
  const auto published = object.find("published");
  if (published == object.end()) return out;
  PENSTOCK_CHECK(published->is_object(), where, ": 'published' is not an object");
  for (const auto& [variant, numbers] : published->items()) {
    PENSTOCK_CHECK(numbers.is_object(), where, ": published '", variant, "' is not an object");
    for (const auto& [name, value] : numbers.items()) {
      const std::int64_t k = k_of_name(name);
      PENSTOCK_CHECK(k >= 0 && value.is_number(), where, ": published '", variant, "' has '", name,
                     "', not a number under k1, k2, ... or all");
      out.published[variant][k] = value.get<double>();
    }
  }
  return out;
}

}  // namespace penstock::study
