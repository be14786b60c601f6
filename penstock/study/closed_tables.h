// What a study shows without training: its settings, as papers print them, and HyperRouter's closed
// forms.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "penstock/study/study_config.h"
#include "penstock/study/table.h"

namespace penstock::study {

/// A column; published numbers go by `name`.
struct ShownSetting {
  std::string name, title, key;  ///< key: of flattened settings
};

/// Rows of settings, the paper's beneath.
class SettingsTable {
 public:
  /// `data` heads the column of what a row is trained on.
  SettingsTable(const std::string& title, const std::string& data,
                std::vector<ShownSetting> columns);
  /// `prefix` stands before the optimizer's keys.
  void add(const std::string& label, const std::string& data,
           const std::map<std::string, std::string>& settings, const std::string& prefix,
           const std::map<std::string, double>& published);
  const Table& table() const { return table_; }

 private:
  std::vector<ShownSetting> columns_;
  Table table_;
};

/// Whether the table of settings has a column of that name.
bool is_shown_setting(const std::string& name);

/// The tables of study.report in its order: "settings" of the variants' recipes (HyperRouter's
/// Table A1) and of the measurements (A2), with the paper's beneath, "A3" and "A4" in closed form
/// with the paper's cells. `resolve` completes a recipe.
std::vector<Table> closed_tables(const StudyConfig& study,
                                 const std::function<ConfigNode(const ConfigNode&)>& resolve);

}  // namespace penstock::study
