// The registry of measurements, and how they replace their results in a row.
#include "penstock/study/measurement.h"

#include "penstock/base/registry.h"

namespace penstock::study {
namespace {

Registry<MeasurementMaker>& registry() {
  static Registry<MeasurementMaker> kinds("measurement");
  return kinds;
}

}  // namespace

void register_measurement(const std::string& name, MeasurementMaker make) {
  registry().add(name, make);
}

bool replace_measured(RunRow& row, const std::string& key, const nlohmann::json& part) {
  const nlohmann::json before = row.measured;
  row.measured.erase(key);
  row.measured.update(part);
  return row.measured != before;
}

Measurements make_measurements() {
  Measurements out;
  for (const auto& [name, make] : registry().entries()) {
    out.push_back(make());
    out.back()->name_ = name;
  }
  return out;
}

const Measurements& plain_measurements() {
  static const Measurements made = make_measurements();
  return made;
}

}  // namespace penstock::study
