// How a study's variants are compared beyond their table: by which figure, with whom, against what
// they must beat first, and beside which published numbers.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace penstock::study {

/// A model that every variant has to beat before their order means anything.
struct Baseline {
  std::string name = "baseline";
  double bits_per_byte = 0;  ///< 0: there is none

  template <class V>
  void visit(V& v) {
    v("name", name, {.help = "as shown"});
    v("bits_per_byte", bits_per_byte, {.help = "of the same text", .min = 0});
  }
};

struct Comparison {
  std::string measure = "bits_per_byte";  ///< or "perplexity"; of the figures by k
  std::string reference;                  ///< variant that the others are compared with
  Baseline baseline;
  /// Published numbers by variant and k; k = 0 stands for every k.
  std::map<std::string, std::map<std::int64_t, double>> published;
};

/// "bits per byte" or "perplexity".
std::string measure_title(const Comparison& comparison);

/// {"measure", "reference", "baseline", "baseline_bits_per_byte", "published": {VARIANT:
/// {"k1": 1.5}}}; null without a baseline.
nlohmann::json to_json(const Comparison& comparison);
/// What to_json wrote; absent parts keep their defaults. Throws Error naming `where`.
Comparison comparison_from_json(const nlohmann::json& object, const std::string& where);

/// The k of "k8", 0 of "all"; -1 of anything else.
std::int64_t k_of_name(const std::string& name);

}  // namespace penstock::study
