// Reads BANKING77 (Casanueva et al., 2020): CSV of text and category, with the names in
// categories.json.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/data/classification/checks.h"
#include "penstock/data/classification/csv.h"
#include "penstock/data/classification/readers.h"

namespace penstock {
namespace {

struct CategoryRow {
  std::string text, category;
  std::size_t line = 0;
};

std::vector<CategoryRow> category_rows(const std::string& path) {
  const std::string content = classification::read_single_file(path);
  CsvReader csv(content, path);
  const auto header = csv.next();
  const auto column = [&](std::string_view name) {
    const auto found =
        header ? std::ranges::find(*header, name) : std::vector<std::string>::const_iterator();
    PENSTOCK_CHECK(header && found != header->end(), path, ":1: no column '", name,
                   "'; the first line should be text,category");
    return static_cast<std::size_t>(found - header->begin());
  };
  const std::size_t text = column("text"), category = column("category");
  std::vector<CategoryRow> rows;
  while (auto fields = csv.next()) {
    PENSTOCK_CHECK(fields->size() == header->size(), path, ":", csv.line(), ": ", fields->size(),
                   " columns where the header names ", header->size());
    classification::check_text((*fields)[text], path, csv.line());
    PENSTOCK_CHECK(!(*fields)[category].empty(), path, ":", csv.line(), ": has no category");
    classification::check_text((*fields)[category], path, csv.line());  // checkpoints name it
    rows.push_back({std::move((*fields)[text]), std::move((*fields)[category]), csv.line()});
  }
  return rows;
}

/// The names in categories.json beside `path`; empty without that file.
std::vector<std::string> listed_categories(const std::string& path) {
  auto& fs = real_file_system();
  const auto list = parent_directory(path) / "categories.json";
  if (!fs.exists(list)) return {};
  const auto json = nlohmann::json::parse(fs.read(list), nullptr, false);
  std::vector<std::string> names;
  std::set<std::string> seen;
  const bool array = json.is_array() && !json.empty();
  PENSTOCK_CHECK(array, "'", list.string(), "' is not a JSON list of category names");
  for (const auto& name : json) {
    PENSTOCK_CHECK(name.is_string(), "'", list.string(), "': entry ", names.size(),
                   " is not a string");
    names.push_back(name.get<std::string>());
    PENSTOCK_CHECK(seen.insert(names.back()).second, "'", list.string(), "' names '", names.back(),
                   "' twice");
  }
  return names;
}

}  // namespace

ClassificationSet read_banking77(const std::string& path,
                                 std::span<const std::string> class_names) {
  auto rows = category_rows(path);
  ClassificationSet out{.class_names = {class_names.begin(), class_names.end()}};
  if (out.class_names.empty()) out.class_names = listed_categories(path);
  if (out.class_names.empty()) {
    std::set<std::string> names;
    for (const auto& row : rows) names.insert(row.category);
    out.class_names.assign(names.begin(), names.end());
  }
  std::unordered_map<std::string, int> label_of;
  for (int i = 0; i < out.classes(); ++i)
    label_of.emplace(out.class_names[static_cast<std::size_t>(i)], i);
  for (auto& row : rows) {
    const auto label = label_of.find(row.category);
    PENSTOCK_CHECK(label != label_of.end(), path, ":", row.line, ": the category '", row.category,
                   "' is not one of the ", out.class_names.size(), " that are known");
    out.texts.push_back(std::move(row.text));
    out.labels.push_back(label->second);
  }
  return out;
}

}  // namespace penstock
