// Makes a table of runs' settings in the form in which papers print them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/study/config/published_names.h"
#include "penstock/study/table.h"

namespace penstock::study {

/// The settings of runs, one row each, with the paper's settings in a row beneath.
class SettingsTable {
 public:
  /// `data` is the title of the column that names the training data.
  SettingsTable(const std::string& title, const std::string& data,
                std::vector<ShownSetting> columns);
  /// `prefix` is put before the optimizer's keys.
  void add(const std::string& label, const std::string& data,
           const std::map<std::string, std::string>& settings, const std::string& prefix,
           const std::map<std::string, double>& published);
  const Table& table() const { return table_; }

 private:
  std::vector<ShownSetting> columns_;
  Table table_;
};

}  // namespace penstock::study
