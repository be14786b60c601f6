#include "penstock/study/closed_tables.h"

#include <fmt/format.h>

#include "penstock/analysis/published_tables.h"
#include "penstock/study/config_hash.h"
#include "penstock/study/measurement.h"
#include "penstock/study/settings_table.h"

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

Table closed_form(const std::string& name) {
  const analysis::PublishedTable table = analysis::published_table(name);
  Table out{
      .title = fmt::format("HyperRouter, Table {}: {} ({})", table.name, table.title, table.unit),
      .columns = {"", "method", "published", "closed form", "useful", "remark"}};
  for (const auto& cell : table.cells)
    out.rows.push_back(
        {{cell.row, cell.column, fixed(table.digits)(cell.published),
          fixed(table.digits + 2)(cell.computed), fixed(table.digits + 2)(cell.useful),
          cell.agrees ? "agrees" : cell.remark}});
  return out;
}

}  // namespace

std::vector<Table> closed_tables(const StudyConfig& study,
                                 const std::function<ConfigNode(const ConfigNode&)>& resolve) {
  std::vector<Table> out;
  for (const auto& what : study.report) {
    if (what == "A3" || what == "A4") out.push_back(closed_form(what));
    if (what != "settings") continue;
    if (!study.variants.empty()) out.push_back(recipe_settings(study, resolve));
    for (const auto& one : study.measurements)
      if (auto table = one->settings_table()) out.push_back(std::move(*table));
  }
  return out;
}

}  // namespace penstock::study
