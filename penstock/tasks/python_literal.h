// Parses Python's literals for lists, dictionaries, strings and integers, because one published
// data set stores its questions as such literals. It parses nothing else of Python.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace penstock::tasks {

/// Parses the text. Throws Error with the position of anything that it cannot parse.
nlohmann::ordered_json parse_python_literal(std::string_view text);

}  // namespace penstock::tasks
