#include "penstock/train/metrics_events.h"

#include <chrono>
#include <nlohmann/json.hpp>

namespace penstock {

std::map<std::string, double> metrics_scalars(const nlohmann::ordered_json& line) {
  std::map<std::string, double> values;
  const auto add = [&](const std::string& prefix, const nlohmann::ordered_json& object) {
    for (const auto& [name, value] : object.items())
      if (value.is_number() && name != "step") values[prefix + name] = value.get<double>();
  };
  add("train/", line);
  for (const auto& [name, value] : line.items())
    if (value.is_object()) add(name + "/", value);
  return values;
}

void write_metrics_event(TensorBoardWriter& events, const nlohmann::ordered_json& line) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  events.scalars(line.at("step").get<std::int64_t>(), std::chrono::duration<double>(now).count(),
                 metrics_scalars(line));
}

}  // namespace penstock
