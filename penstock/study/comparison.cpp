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

std::optional<double> published_number(const Comparison& comparison, const std::string& variant,
                                       const std::string& name, const std::string& otherwise) {
  const auto numbers = comparison.published.find(variant);
  if (numbers == comparison.published.end()) return std::nullopt;
  for (const auto& key : {name, otherwise})
    if (const auto it = numbers->second.find(key); it != numbers->second.end()) return it->second;
  return std::nullopt;
}

nlohmann::json to_json(const Comparison& comparison) {
  nlohmann::json published = nlohmann::json::object();
  for (const auto& [variant, numbers] : comparison.published)
    for (const auto& [name, value] : numbers) published[variant][name] = value;
  const Baseline& baseline = comparison.baseline;
  const bool has = baseline.bits_per_byte > 0;
  return {
      {"measure", comparison.measure},
      {"published_as", comparison.published_as},
      {"reference", comparison.reference},
      {"baseline", has ? nlohmann::json(baseline.name) : nlohmann::json()},
      {"baseline_bits_per_byte", has ? nlohmann::json(baseline.bits_per_byte) : nlohmann::json()},
      {"baseline_except", baseline.except},
      {"published", published},
      {"begins_with", comparison.begins_with}};
}

Comparison comparison_from_json(const nlohmann::json& object, const std::string& where) {
  Comparison out;
  out.measure = string_or(object, "measure", out.measure, where);
  out.published_as = string_or(object, "published_as", "", where);
  out.reference = string_or(object, "reference", "", where);
  out.baseline.name = string_or(object, "baseline", out.baseline.name, where);
  out.baseline.bits_per_byte = number_or(object, "baseline_bits_per_byte", 0, where);
  if (const auto except = object.find("baseline_except"); except != object.end()) {
    PENSTOCK_CHECK(except->is_array(), where, ": 'baseline_except' is not an array");
    for (const auto& name : *except) {
      PENSTOCK_CHECK(name.is_string(), where, ": 'baseline_except' has what is no name");
      out.baseline.except.push_back(name.get<std::string>());
    }
  }
  if (const auto begins = object.find("begins_with"); begins != object.end()) {
    PENSTOCK_CHECK(begins->is_object(), where, ": 'begins_with' is not an object");
    for (const auto& [variant, name] : begins->items()) {
      PENSTOCK_CHECK(name.is_string(), where, ": 'begins_with' has what is no name");
      out.begins_with[variant] = name.get<std::string>();
    }
  }
  const auto published = object.find("published");
  if (published == object.end()) return out;
  PENSTOCK_CHECK(published->is_object(), where, ": 'published' is not an object");
  for (const auto& [variant, numbers] : published->items()) {
    PENSTOCK_CHECK(numbers.is_object(), where, ": published '", variant, "' is not an object");
    for (const auto& [name, value] : numbers.items()) {
      PENSTOCK_CHECK(value.is_number(), where, ": published '", variant, "' has '", name,
                     "', which is not a number");
      out.published[variant][name] = value.get<double>();
    }
  }
  return out;
}

}  // namespace penstock::study
