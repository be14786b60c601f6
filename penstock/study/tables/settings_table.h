// Settings of runs as papers print them, a row each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/study/tables/table.h"

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

/// The columns of recipes.
const std::vector<ShownSetting>& recipe_columns();
/// Whether these have one of that name.
bool is_shown_setting(const std::string& name);

}  // namespace penstock::study
