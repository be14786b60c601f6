// A tree of configuration values, each with its origin (file and line, or the command-line
// override). It is not a general document type: it has only the types of a recipe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace penstock {

/// One value of a recipe: bool, integer, number, string, array or table, with its origin.
class ConfigNode {
 public:
  using Array = std::vector<ConfigNode>;
  using Table = std::map<std::string, ConfigNode>;
  using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Table>;

  ConfigNode() = default;
  explicit ConfigNode(Value value, std::string origin = {}, std::string file = {})
      : value_(std::move(value)), origin_(std::move(origin)), file_(std::move(file)) {}

  const Value& value() const { return value_; }
  bool empty() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_table() const { return std::holds_alternative<Table>(value_); }
  /// "recipe.toml:12", or an override with its option: "--set a.b=c"; empty for a default.
  const std::string& origin() const { return origin_; }
  /// The TOML file that the origin names; empty for other origins.
  const std::string& file() const { return file_; }
  /// The name of the value's type for errors: "a string", "an integer", ...
  std::string type_name() const;

  /// The table's entries; an empty node counts as an empty table. Throws Error for other types.
  const Table& table() const;
  /// The entry of that key, or null.
  const ConfigNode* find(const std::string& key) const;
  /// Sets a.b.c below this node and creates missing tables.
  void set(const std::string& dotted_key, ConfigNode node);
  void set(const std::string& dotted_key, Value value) {
    set(dotted_key, ConfigNode(std::move(value)));
  }
  /// Merges `over` into this tree: tables are merged, other values of `over` replace those here.
  void merge(const ConfigNode& over);

 private:
  Value value_;
  std::string origin_, file_;
};

/// The tree as TOML text: scalars first, then tables, keys sorted; reads back to an equal tree.
std::string to_toml(const ConfigNode& root);

}  // namespace penstock
