#include "penstock/study/config/comparison.h"

#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/base/parse_number.h"

namespace penstock::study {

void VariantGroup::read(const nlohmann::json& from, const std::string& where) {
  if (from.is_array())
    names = read_json<std::vector<std::string>>(from, where);
  else
    names = {read_json<std::string>(from, where)};
  PENSTOCK_CHECK(!names.empty(), where, ": is an empty list");
}

nlohmann::json VariantGroup::written() const {
  return names.size() == 1 ? nlohmann::json(names[0]) : nlohmann::json(names);
}

std::string measure_title(Quality measure) {
  return measure == Quality::perplexity ? "perplexity" : "bits per byte";
}

std::int64_t k_of_name(const std::string& name) {
  if (name == "all") return 0;
  if (!name.starts_with('k')) return -1;
  const auto k = parse_number<std::int64_t>(std::string_view(name).substr(1));
  return k && *k > 0 ? *k : -1;
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
  nlohmann::json out = write_json(comparison);
  if (comparison.baseline.bits_per_byte <= 0) out["baseline"] = out["baseline_bits_per_byte"] = {};
  return out;
}

}  // namespace penstock::study
