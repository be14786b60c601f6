#include "penstock/study/tables/measured_k.h"

#include <algorithm>

namespace penstock::study {

const KFigures* MeasuredK::at(std::int64_t k) const {
  for (const KFigures& point : points)
    if (point.k == k || point.k == 0) return &point;
  return nullptr;
}

std::vector<std::int64_t> missing_k(const std::optional<MeasuredK>& have,
                                    std::span<const std::int64_t> wanted,
                                    RunCheckpoint checkpoint) {
  std::vector<std::int64_t> out;
  for (const std::int64_t k : wanted)
    if (!have || have->checkpoint != checkpoint || !have->at(k)) out.push_back(k);
  return out;
}

MeasuredK merged(const std::optional<MeasuredK>& have, MeasuredK more) {
  if (have && have->checkpoint == more.checkpoint && have->step == more.step &&
      have->split == more.split)
    for (const KFigures& point : have->points)
      if (!more.at(point.k)) more.points.push_back(point);
  std::ranges::sort(more.points, {}, &KFigures::k);
  return more;
}

nlohmann::json to_json(const MeasuredK& measured) {
  nlohmann::json points = nlohmann::json::array();
  for (const KFigures& point : measured.points)
    points.push_back(nlohmann::json(penstock::to_json(point)));
  return {{"by_k", points}, {"by_k_of", write_json(measured)}};
}

std::optional<MeasuredK> measured_k_from_json(const nlohmann::json& object,
                                              const std::string& where) {
  const auto points = object.find("by_k"), of = object.find("by_k_of");
  if (points == object.end() || points->is_null()) return std::nullopt;
  PENSTOCK_CHECK(points->is_array(), where, ": 'by_k' is not a list");
  PENSTOCK_CHECK(of != object.end(), where, ": 'by_k_of' is missing");
  auto out = read_json<MeasuredK>(*of, where + ": by_k_of");
  for (const auto& point : *points)
    out.points.push_back(k_figures_from_json(point, where + ": by_k"));
  return out;
}

std::optional<MeasuredK> measured_k(const RunRow& row, bool folded) {
  if (!folded) return measured_k_from_json(row.measured, row.variant);
  const auto it = row.measured.find("folded");
  return it == row.measured.end() ? std::nullopt : measured_k_from_json(*it, row.variant);
}

}  // namespace penstock::study
