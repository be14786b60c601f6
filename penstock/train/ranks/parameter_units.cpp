#include "penstock/train/ranks/parameter_units.h"

#include <algorithm>
#include <map>
#include <utility>

#include "penstock/models/module_names.h"
#include "penstock/ops/square_sums.h"

namespace penstock {
namespace {

void cut(ParameterUnit& unit, const std::vector<ParameterSize>& parameters, int ranks) {
  std::int64_t total = 0, offset = 0;
  for (const std::size_t p : unit.parameters) total += parameters[p].elements;
  unit.spans.resize(static_cast<std::size_t>(ranks));
  for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
    const std::int64_t elements = parameters[unit.parameters[p]].elements;
    for (std::int64_t begin = 0; begin < elements;) {
      const std::int64_t rank = (offset + begin) * ranks / total;
      // The next rank's elements begin with the first piece that starts at `behind` or later.
      const std::int64_t behind = ((rank + 1) * total + ranks - 1) / ranks - offset;
      const std::int64_t pieces = (behind + ops::kSquarePiece - 1) / ops::kSquarePiece;
      const std::int64_t end = std::min(pieces * ops::kSquarePiece, elements);
      unit.spans[static_cast<std::size_t>(rank)].push_back(
          {.parameter = p, .begin = begin, .end = end});
      begin = end;
    }
    offset += elements;
  }
}

}  // namespace

std::int64_t ParameterUnit::elements(int rank) const {
  std::int64_t out = 0;
  for (const Span& span : spans[static_cast<std::size_t>(rank)]) out += span.size();
  return out;
}

std::vector<ParameterSize> sizes_of(const std::vector<Updated>& parameters) {
  std::vector<ParameterSize> out;
  for (const Updated& each : parameters) out.push_back({each.name, each.weight.numel()});
  return out;
}

std::vector<ParameterUnit> parameter_units(const std::vector<ParameterSize>& parameters,
                                           const ParameterPredicate& of_experts, int ranks,
                                           int replicas) {
  // By descending layer, with the unit of no layer (-1) last. A layer's experts come first.
  std::map<std::pair<std::int64_t, bool>, ParameterUnit, std::greater<>> units;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::string& name = parameters[p].name;
    const std::int64_t layer = only_layer_of(name);
    const bool experts = of_experts && of_experts(name);
    ParameterUnit& unit = units[{layer, experts}];
    unit.layer = layer;
    unit.experts = experts;
    unit.parameters.push_back(p);
  }
  std::vector<ParameterUnit> out;
  for (auto& [key, unit] : units) {
    cut(unit, parameters, unit.experts ? replicas : ranks);
    out.push_back(std::move(unit));
  }
  return out;
}

}  // namespace penstock
