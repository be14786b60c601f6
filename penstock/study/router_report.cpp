#include "penstock/study/router_report.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "penstock/base/atomic_files.h"
#include "penstock/io/json_text.h"
#include "penstock/study/json_field.h"

namespace penstock::study {
namespace {

std::string routers_path(const std::string& run_directory) {
  return (std::filesystem::path(run_directory) / "routers.json").string();
}

const nlohmann::json& list_at(const nlohmann::json& object, const char* key,
                              const std::string& where) {
  const auto it = object.find(key);
  PENSTOCK_CHECK(it != object.end() && it->is_array(), where, ": the list '", key, "' is missing");
  return *it;
}

}  // namespace

nlohmann::json to_json(const RouterReport& report) {
  nlohmann::json layers = nlohmann::json::array(), samples = nlohmann::json::array();
  for (const auto& layer : report.layers)
    layers.push_back({{"mean", layer.mean},
                      {"sd", layer.sd},
                      {"initial_mean", layer.initial_mean},
                      {"initial_sd", layer.initial_sd}});
  for (const auto& sample : report.samples)
    samples.push_back({{"context", sample.context}, {"probabilities", sample.probabilities}});
  return {{"checkpoint", report.checkpoint},
          {"step", report.step},
          {"split", report.split},
          {"tokens", report.tokens},
          {"refused", report.refused},
          {"entropy", layers},
          {"samples", samples}};
}

RouterReport router_report_from_json(const nlohmann::json& object, const std::string& where) {
  PENSTOCK_CHECK(object.is_object(), where, ": expected an object on the routers");
  RouterReport out{.checkpoint = string_or(object, "checkpoint", "final", where),
                   .step = static_cast<std::int64_t>(number_or(object, "step", 0, where)),
                   .split = string_or(object, "split", "", where),
                   .tokens = number_or(object, "tokens", 0, where),
                   .refused = string_or(object, "refused", "", where)};
  for (const auto& layer : list_at(object, "entropy", where)) {
    PENSTOCK_CHECK(layer.is_object(), where, ": a layer's entropy is not an object");
    out.layers.push_back({.mean = required_number(layer, "mean", where),
                          .sd = required_number(layer, "sd", where),
                          .initial_mean = required_number(layer, "initial_mean", where),
                          .initial_sd = required_number(layer, "initial_sd", where)});
  }
  for (const auto& sample : list_at(object, "samples", where)) {
    PENSTOCK_CHECK(sample.is_object(), where, ": a sample is not an object");
    auto& token = out.samples.emplace_back();
    token.context = string_or(sample, "context", "", where);
    for (const auto& row : list_at(sample, "probabilities", where))
      token.probabilities.push_back(numbers(row, where));
  }
  return out;
}

void write_router_report(const RouterReport& report, const std::string& run_directory) {
  write_file_atomically(real_file_system(), routers_path(run_directory),
                        readable_text(to_json(report)));
}

std::optional<RouterReport> read_router_report(const std::string& run_directory) {
  const std::string path = routers_path(run_directory);
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  const nlohmann::json object = nlohmann::json::parse(in, nullptr, false);
  PENSTOCK_CHECK(object.is_object(), path, ": is not a JSON object; remove it to measure again");
  return router_report_from_json(object, path);
}

}  // namespace penstock::study
