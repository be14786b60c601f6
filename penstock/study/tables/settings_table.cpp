#include "penstock/study/tables/settings_table.h"

#include <fmt/format.h>

#include <optional>

#include "penstock/base/parse_number.h"
#include "penstock/study/config/config_hash.h"

namespace penstock::study {
namespace {

using Settings = std::map<std::string, std::string>;

/// The optimizer's name: AdamW with decoupled weight decay, otherwise Adam.
std::string optimizer(const Settings& settings, const std::string& prefix) {
  const std::string decay = plain_setting(settings, prefix + "weight_decay");
  const bool none = decay.empty() || std::stod(decay) == 0;
  return none || plain_setting(settings, prefix + "decay") == "coupled" ? "Adam" : "AdamW";
}

/// The setting's text. A number is shortened: "0.0001" for the file's "1e-04".
std::string shown_setting(const Settings& settings, const std::string& key) {
  const std::string text = plain_setting(settings, key);
  const auto number = parse_number<double>(text);
  return number ? fmt::format("{:g}", *number) : text;
}

}  // namespace

SettingsTable::SettingsTable(const std::string& title, const std::string& data,
                             std::vector<ShownSetting> columns)
    : columns_(std::move(columns)), table_{.title = title, .columns = {"", data}} {
  for (const auto& column : columns_) table_.columns.emplace_back(column.title);
  table_.columns.emplace_back("optimizer");
}

void SettingsTable::add(const std::string& label, const std::string& data, const Settings& settings,
                        const std::string& prefix, const std::map<std::string, double>& published) {
  TableRow row{.cells = {label, data}}, paper{.cells = {"paper", "–"}, .beneath = true};
  bool any = false;
  for (const auto& column : columns_) {
    row.cells.emplace_back(shown_setting(settings, column.key));
    const auto number = published.find(column.name);
    any |= number != published.end();
    paper.cells.emplace_back(
        number_or_dash(number == published.end() ? std::nullopt : std::optional(number->second)));
  }
  row.cells.emplace_back(optimizer(settings, prefix));
  paper.cells.emplace_back("–");
  table_.rows.push_back(std::move(row));
  if (any) table_.rows.push_back(std::move(paper));
}

}  // namespace penstock::study
