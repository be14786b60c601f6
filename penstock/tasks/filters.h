// The filters of templates: small functions that map a value to a value. A filter for text also
// takes a list of texts; then it returns the list of results.
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
  std::vector<std::string> path;  ///< of the field; empty for a literal
};

struct FilterCall {
  const Filter* filter = nullptr;
  std::vector<FilterArgument> arguments;
};

struct Filter {
  std::string_view name;
  std::size_t least = 0, most = 0;  ///< number of arguments
  bool of_text = true;              ///< is applied to each text of a list
  std::string_view help;
  nlohmann::ordered_json (*apply)(const nlohmann::ordered_json& value,
                                  const std::vector<nlohmann::ordered_json>& arguments);
};

const std::vector<Filter>& all_filters();
/// The filter of that name. Throws Error for an unknown name, with the nearest one.
const Filter& find_filter(std::string_view name);
/// Applies the filter. Throws Error for a value of a type that the filter does not accept.
nlohmann::ordered_json apply_filter(const Filter& filter, const nlohmann::ordered_json& value,
                                    const std::vector<nlohmann::ordered_json>& arguments);

}  // namespace penstock::tasks
