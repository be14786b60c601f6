// The comparison of a study's variants: the figure, the reference variant, chosen pairs of variants
// or groups, the baseline that they must beat, and published numbers.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/study/json_field.h"

namespace penstock::study {

/// A model that the variants must beat before their order means anything.
struct Baseline {
  std::string name = "baseline";
  double bits_per_byte = 0;  ///< 0: no baseline, or not yet computed
  std::int64_t ngram = 0;    ///< order of an n-gram model counted on the corpus; 0: none

  /// Variants that are expected to lose, such as one from random weights in a study of upcycling.
  std::vector<std::string> except;

  bool wanted() const { return bits_per_byte > 0 || ngram > 0; }

  template <class V>
  void visit(V& v) {
    v("name", name, {.help = "name shown for the baseline"});
    v("bits_per_byte", bits_per_byte,
      {.help = "bits per byte of the baseline on the same text", .min = 0});
    v("ngram", ngram,
      {.help = "order of an n-gram model as the baseline, counted on the first variant's corpus",
       .min = 0,
       .max = 6});
    v("except", except, {.help = "variants that need not beat the baseline"});
  }
};

/// The measure of a model's quality, from its loss on a text.
enum class Quality { bits_per_byte, perplexity };
constexpr std::array<std::string_view, 2> words(Quality) { return {"bits_per_byte", "perplexity"}; }

/// Names of one variant, or of a group of variants whose mean is compared. In JSON one name is a
/// string and several are a list.
struct VariantGroup {
  std::vector<std::string> names;

  VariantGroup() = default;
  VariantGroup(std::string name) : names{std::move(name)} {}
  VariantGroup(const char* name) : names{name} {}
  VariantGroup(std::initializer_list<std::string> names) : names(names) {}
  bool operator==(const VariantGroup&) const = default;

  /// Throws Error naming `where` for JSON that is no name and no list of names.
  void read(const nlohmann::json& from, const std::string& where);
  nlohmann::json written() const;
};

/// Two variants or groups that the study compares; the difference is first − second.
struct ChosenPair {
  VariantGroup first, second;
  std::optional<std::string> label = {};  ///< none: by the variants' labels

  bool operator==(const ChosenPair&) const = default;
  template <class V>
  void visit(V& v) {
    v("first", first, Presence::required);
    v("second", second, Presence::required);
    v("label", label, Presence::if_filled);
  }
};

struct Comparison {
  Quality measure = Quality::bits_per_byte;  ///< of the figures by k
  /// The meaning of the variants' published = {result = ...}, shown beside their results; may be
  /// empty.
  std::string published_as;
  std::string reference;          ///< variant that the others are compared with
  std::vector<ChosenPair> pairs;  ///< in the file's order
  Baseline baseline;
  /// Published numbers by variant and name: "k8" and "all" (every k) for the figures by k; "layer2"
  /// and "layer2-sd" for entropies; "TASK-k8" and "TASK" for fine-tunings, in percent; or the name
  /// of a setting.
  std::map<std::string, std::map<std::string, double>> published;
  /// By variant: the variant, or the path of the model, that it begins with.
  std::map<std::string, std::string> begins_with;

  template <class V>
  void visit(V& v) {
    v("measure", measure);
    v("published_as", published_as);
    v("reference", reference);
    v("pairs", pairs, Presence::if_filled);
    v("baseline", baseline.name);
    v("baseline_bits_per_byte", baseline.bits_per_byte);
    v("baseline_except", baseline.except);
    v("published", published);
    v("begins_with", begins_with);
  }
};

/// "bits per byte" or "perplexity".
std::string measure_title(Quality measure);

/// Its fields as JSON; the baseline's name and bits per byte are null if there is no baseline.
nlohmann::json to_json(const Comparison& comparison);

/// The k of "k8"; 0 for "all"; -1 for other text.
std::int64_t k_of_name(const std::string& name);

/// The published number of that name, or of the name `otherwise` if the first has none.
std::optional<double> published_number(const Comparison& comparison, const std::string& variant,
                                       const std::string& name, const std::string& otherwise = "");

}  // namespace penstock::study
