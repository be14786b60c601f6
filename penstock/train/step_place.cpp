#include "penstock/train/step_place.h"

#include <fmt/format.h>

namespace penstock {

LayerWatch watch_of_part(const StepWatch& watch, std::size_t part, std::size_t parts,
                         std::int64_t layers) {
  if (!watch) return {};
  return [=, &watch](PassDirection direction, std::int64_t layer) {
    watch({.part = part, .parts = parts, .layer = layer, .layers = layers, .direction = direction});
  };
}

std::string place_text(const StepPlace& place, const std::string& part) {
  const char* direction = place.direction == PassDirection::forward ? "forward" : "backward";
  const std::string where = place.layer == place.layers
                                ? "head"
                                : fmt::format("layer {} of {}", place.layer + 1, place.layers);
  const std::string which =
      place.parts > 1 ? fmt::format("{} {} of {}, ", part, place.part + 1, place.parts) : "";
  return fmt::format("{}{} {}", which, where, direction);
}

}  // namespace penstock
