// Points of a checkpoint: joined, written, read.
#include "penstock/study/measured_k.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/io/json_text.h"
#include "penstock/study/json_field.h"

namespace penstock::study {
namespace {

std::string by_k_path(const std::string& run_directory, bool folded) {
  const char* const name = folded ? "by_k_folded.json" : "by_k.json";
  return (std::filesystem::path(run_directory) / name).string();
}

}  // namespace

const KFigures* MeasuredK::at(std::int64_t k) const {
  for (const KFigures& point : points)
    if (point.k == k || point.k == 0) return &point;
  return nullptr;
}

std::vector<std::int64_t> missing_k(const std::optional<MeasuredK>& have,
                                    std::span<const std::int64_t> wanted,
                                    const std::string& checkpoint) {
  std::vector<std::int64_t> out;
  for (const std::int64_t k : wanted)
    if (!have || have->checkpoint != checkpoint || !have->at(k)) out.push_back(k);
  return out;
}

MeasuredK joined(const std::optional<MeasuredK>& have, MeasuredK more) {
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
  return {{"by_k", points},
          {"by_k_of",
           {{"checkpoint", measured.checkpoint},
            {"step", measured.step},
            {"split", measured.split},
            {"trained_k", measured.trained_k}}}};
}

std::optional<MeasuredK> measured_k_from_json(const nlohmann::json& object,
                                              const std::string& where) {
  const auto points = object.find("by_k"), of = object.find("by_k_of");
  if (points == object.end() || points->is_null()) return std::nullopt;
  PENSTOCK_CHECK(points->is_array(), where, ": 'by_k' is not a list");
  PENSTOCK_CHECK(of != object.end() && of->is_object(), where, ": 'by_k_of' is missing");
  MeasuredK out;
  out.checkpoint = string_or(*of, "checkpoint", "final", where);
  out.step = static_cast<std::int64_t>(number_or(*of, "step", 0, where));
  out.split = string_or(*of, "split", "", where);
  out.trained_k = number_or(*of, "trained_k", 0, where);
  for (const auto& point : *points)
    out.points.push_back(k_figures_from_json(point, where + ": by_k"));
  return out;
}

void write_measured_k(const MeasuredK& measured, const std::string& run_directory, bool folded) {
  write_file_atomically(real_file_system(), by_k_path(run_directory, folded),
                        readable_text(to_json(measured)));
}

std::optional<MeasuredK> read_measured_k(const std::string& run_directory, bool folded) {
  const std::string path = by_k_path(run_directory, folded);
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  const nlohmann::json object = nlohmann::json::parse(in, nullptr, false);
  PENSTOCK_CHECK(object.is_object(), path, ": is not a JSON object; remove it to measure again");
  return measured_k_from_json(object, path);
}

}  // namespace penstock::study
