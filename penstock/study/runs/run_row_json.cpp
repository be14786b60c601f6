#include "penstock/study/runs/run_row_json.h"

#include "penstock/base/error.h"
#include "penstock/study/json_field.h"
#include "penstock/study/measurement.h"

namespace penstock::study {

nlohmann::json to_json(const RunRow& row) {
  nlohmann::json out = write_json(row);
  out.update(row.measured);
  return out;
}

RunRow row_from_json(const nlohmann::json& object, const std::string& where) {
  auto row = read_json<RunRow>(object, where);
  PENSTOCK_CHECK(!row.variant.empty(), where, ": a row has no variant");
  if (row.label.empty()) row.label = row.variant;
  for (const auto& [name, curve] : row.curves)
    PENSTOCK_CHECK(curve.steps.size() == curve.values.size(), where, ": curve '", name,
                   "' has unequal numbers of steps and values");
  for (const auto& one : plain_measurements()) row.measured.update(one->read_row(object, where));
  return row;
}

}  // namespace penstock::study
