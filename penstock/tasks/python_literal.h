// Python's notation of lists, dictionaries, texts and whole numbers, in which one published data
// set keeps its questions. Nothing else of that language.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace penstock::tasks {

/// The value of the text. Throws Error with the place of what it does not understand.
nlohmann::ordered_json parse_python_literal(std::string_view text);

}  // namespace penstock::tasks
