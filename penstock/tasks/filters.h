// The filters of templates: small functions from value to value. A filter for text also takes a
// list of texts, and then returns the list of results.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tasks {

struct Filter;

/// An argument: a literal text or number in the template, or the path of a field.
struct FilterArgument {
  nlohmann::ordered_json value;
  std::vector<std::string> path;  ///< if it is a field
};

struct FilterCall {
  const Filter* filter = nullptr;
  std::vector<FilterArgument> arguments;
};

/// A filter's help: name, arguments and meaning.
struct Filter {
  std::string_view name;
  std::size_t least = 0, most = 0;  ///< arguments
  bool of_text = true;              ///< applied to each text of a list
  std::string_view help;
  nlohmann::ordered_json (*apply)(const nlohmann::ordered_json& value,
                                  const std::vector<nlohmann::ordered_json>& arguments);
};

const std::vector<Filter>& all_filters();
/// Throws Error for an unknown name, naming the nearest.
const Filter& find_filter(std::string_view name);
/// Applies the filter. Throws Error for a value of a type that it does not take.
nlohmann::ordered_json apply_filter(const Filter& filter, const nlohmann::ordered_json& value,
                                    const std::vector<nlohmann::ordered_json>& arguments);

}  // namespace penstock::tasks
