// A table that a study shows besides its results: cells of text, on a terminal and on the page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace penstock::study {

struct ShownTable {
  std::string title, note;                      ///< note: may be empty
  std::vector<std::vector<std::string>> lines;  ///< equally long; the first is the head
};

/// The title, the lines aligned, the note.
std::string table_text(const ShownTable& table);
/// A heading and a card.
std::string table_html(const ShownTable& table);

nlohmann::json to_json(const ShownTable& table);
/// What to_json wrote. Throws Error naming `where`.
ShownTable shown_table_from_json(const nlohmann::json& object, const std::string& where);

}  // namespace penstock::study
