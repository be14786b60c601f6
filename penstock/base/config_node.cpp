#include "penstock/base/config_node.h"

#include "penstock/base/error.h"

namespace penstock {

std::string ConfigNode::type_name() const {
  static const char* const names[] = {"nothing",  "true or false", "an integer", "a number",
                                      "a string", "an array",      "a table"};
  return names[value_.index()];
}

const ConfigNode::Table& ConfigNode::table() const {
  static const Table none;
  if (empty()) return none;
  PENSTOCK_CHECK(is_table(), origin_, origin_.empty() ? "" : ": ", "expected a table, found ",
                 type_name());
  return std::get<Table>(value_);
}

const ConfigNode* ConfigNode::find(const std::string& key) const {
  const Table& entries = table();
  const auto it = entries.find(key);
  return it == entries.end() ? nullptr : &it->second;
}

void ConfigNode::set(const std::string& dotted_key, ConfigNode node) {
  if (empty()) value_ = Table{};
  const std::string place = node.origin().empty() ? "" : node.origin() + ": ";
  const std::string value = origin_.empty() ? type_name() : origin_;
  PENSTOCK_CHECK(is_table(), place, "'", dotted_key, "' is below a value that is not a table (",
                 value, ")");
  auto& entries = std::get<Table>(value_);
  const auto dot = dotted_key.find('.');
  if (dot == std::string::npos) {
    entries[dotted_key] = std::move(node);
  } else {
    entries[dotted_key.substr(0, dot)].set(dotted_key.substr(dot + 1), std::move(node));
  }
}

void ConfigNode::merge(const ConfigNode& over) {
  if (!is_table() || !over.is_table()) {
    if (!over.empty()) *this = over;
    return;
  }
  auto& entries = std::get<Table>(value_);
  for (const auto& [key, node] : over.table()) entries[key].merge(node);
}

}  // namespace penstock
