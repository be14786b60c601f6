#include "penstock/study/tables/closed_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "penstock/study/config/config_hash.h"
#include "penstock/study/measurement.h"
#include "penstock/study/tables/settings_table.h"

namespace penstock::study {
namespace {

Table recipe_settings(const StudyConfig& study,
                      const std::function<ConfigNode(const ConfigNode&)>& resolve) {
  SettingsTable out("Settings", "corpus", recipe_columns());
  const auto& published = study.comparison.published;
  for (const auto& variant : study.variants) {
    const auto settings = flatten(resolve(variant.recipe));
    const auto paper = published.find(variant.name);
    out.add(variant.label, plain_setting(settings, "data.corpus"), settings, "train.",
            paper == published.end() ? std::map<std::string, double>() : paper->second);
  }
  return out.table();
}

}  // namespace

Table closed_form(const analysis::PublishedTable& table) {
  const auto differs = [](const auto& cell) { return cell.useful != cell.computed; };
  const bool useful = std::ranges::any_of(table.cells, differs);
  Table out{
      .title = fmt::format("HyperRouter, Table {}: {} ({})", table.name, table.title, table.unit),
      .note = table.note,
      .columns = {"", "method", "published", "closed form"}};
  if (useful) out.columns.emplace_back("useful");
  out.columns.emplace_back("remark");
  for (const auto& cell : table.cells) {
    const auto more_digits = fixed(table.digits + (useful ? 2 : 0));
    TableRow& row = out.rows.emplace_back();
    row.cells = {cell.row, cell.column, fixed(table.digits)(cell.published),
                 more_digits(cell.computed)};
    if (useful) row.cells.emplace_back(more_digits(cell.useful));
    row.cells.emplace_back(cell.agrees ? "agrees" : "differs: " + cell.remark);
  }
  return out;
}

std::vector<Table> closed_tables(const StudyConfig& study,
                                 const std::function<ConfigNode(const ConfigNode&)>& resolve) {
  std::vector<Table> out;
  for (const auto& what : study.report) {
    if (what == "A3" || what == "A4") out.push_back(closed_form(analysis::published_table(what)));
    if (what != "settings") continue;
    if (!study.variants.empty()) out.push_back(recipe_settings(study, resolve));
    for (const auto& one : study.measurements)
      if (auto table = one->settings_table()) out.push_back(std::move(*table));
  }
  return out;
}

}  // namespace penstock::study
