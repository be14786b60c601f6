#include "penstock/study/config/named_tables.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"

namespace penstock::study {
namespace {

// The line in "study.toml:12".
int line_of(const ConfigNode& node) {
  const std::string& origin = node.origin();
  const auto colon = origin.rfind(':');
  int line = 0;
  if (colon != std::string::npos)
    std::from_chars(origin.data() + colon + 1, origin.data() + origin.size(), line);
  return line;
}

}  // namespace

void check_name(const std::string& name, const std::string& where) {
  const bool fits = !name.empty() && name.size() <= 64 && name[0] != '.' &&
                    std::ranges::all_of(name, [](unsigned char c) {
                      return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '+';
                    });
  PENSTOCK_CHECK(fits, where, ": '", name,
                 "' names a folder; use letters, digits, '-', '_', '.' and '+'");
}

void check_is_variant(const std::string& name, const std::vector<std::string>& variants,
                      const std::string& where) {
  if (std::ranges::find(variants, name) != variants.end()) return;
  const std::string nearest = nearest_name(name, variants);
  fail(where, " names '", name, "', which is not a variant of this study",
       nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
}

std::vector<std::string> names_in_order(const ConfigNode& node, const std::string& below) {
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [name, child] : node.table()) {
    PENSTOCK_CHECK(child.is_table(), child.origin(), ": ", below, ".", name,
                   ": expected a table, found ", child.type_name());
    order.emplace_back(line_of(child), name);
  }
  std::ranges::sort(order);
  std::vector<std::string> out;
  for (auto& [line, name] : order) out.push_back(std::move(name));
  return out;
}

std::map<std::string, double> read_numbers(const ConfigNode& node, const std::string& below) {
  std::map<std::string, double> out;
  for (const auto& [name, value] : node.table()) {
    const auto* whole = std::get_if<std::int64_t>(&value.value());
    const auto* real = std::get_if<double>(&value.value());
    PENSTOCK_CHECK(whole || real, value.origin(), ": ", below, name, ": expected a number, found ",
                   value.type_name());
    out[name] = real ? *real : static_cast<double>(*whole);
  }
  return out;
}

void lay_over(ConfigNode& recipe, const ConfigNode& over, const std::string& prefix) {
  for (const auto& [key, node] : over.table()) {
    if (node.is_table())
      lay_over(recipe, node, prefix + key + ".");
    else
      recipe.set(prefix + key, node);
  }
}

}  // namespace penstock::study
