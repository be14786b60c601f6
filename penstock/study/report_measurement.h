// The base class of measurements with one report for each run. The report is an object in the row
// and a file in the run's folder.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "penstock/study/json_field.h"
#include "penstock/study/measurement.h"
#include "penstock/study/runs/run_folder.h"

namespace penstock::study {

/// The report of a row under a measurement's name, if the row has one.
template <class Report>
std::optional<Report> report_under(const std::string& name, const RunRow& row) {
  const auto it = row.measured.find(name);
  if (it == row.measured.end()) return std::nullopt;
  return read_json<Report>(*it, row.variant + ": " + name);
}

/// Stores a Report (json_field.h) in a row under the measurement's name, and in the run's folder as
/// NAME.json.
template <class Report>
class ReportMeasurement : public Measurement {
 public:
  void settle(std::span<const std::string> report, const std::string& /*path*/) override {
    in_report_ = std::ranges::find_first_of(report, report_words()) != report.end();
  }
  void keep(const FinishedRun& run, const Work&, const nlohmann::json& result,
            RunRow& row) const override {
    write_kept_object(result, run.directory, file().c_str());
    row.measured[name()] = result;
  }
  nlohmann::json read_row(const nlohmann::json& row, const std::string& where) const override {
    const auto it = row.find(name());
    if (it == row.end()) return nlohmann::json::object();
    return {{name(), write_json(read_json<Report>(*it, where + ": " + name()))}};
  }
  nlohmann::json read_folder(const std::string& run_directory) const override {
    const auto object = read_kept_object(run_directory, file().c_str());
    return object ? read_row({{name(), *object}}, run_directory + "/" + file())
                  : nlohmann::json::object();
  }

 protected:
  bool in_report_ = false;  ///< whether the study's `report` has one of report_words()

 private:
  std::string file() const { return name() + ".json"; }
};

}  // namespace penstock::study
