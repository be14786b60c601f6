#include "penstock/cli/info/layouts.h"

#include <fmt/format.h>

#include <utility>

#include "penstock/train/layouts/layout_search.h"

namespace penstock {
namespace {

nlohmann::ordered_json layout_json(const PlannedLayout& planned) {
  const ParallelConfig& p = planned.parallel;
  nlohmann::ordered_json out = {
      {"data", p.data},         {"tensor", p.tensor}, {"sequence", p.sequence},
      {"pipeline", p.pipeline}, {"expert", p.expert}, {"pipeline_chunks", p.pipeline_chunks},
      {"zero", p.zero},
  };
  out.update(estimate_json(planned.estimate));
  return out;
}

/// The value with a unit in which it does not round to zero.
std::string decimal_size(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.1f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.1f} KB", bytes / 1e3);
}

void print_row(const PlannedLayout& planned) {
  const ParallelConfig& p = planned.parallel;
  const RankEstimate& rank = planned.estimate;
  fmt::print("{:>6} {:>7} {:>9} {:>9} {:>7} {:>7} {:>5} {:>9.3g} s {:>14.1f} % {:>12} {:>9.1f} %\n",
             p.data, p.tensor, p.sequence ? "yes" : "", p.pipeline, p.pipeline_chunks, p.expert,
             p.zero, rank.step_seconds, 100 * rank.communication(),
             decimal_size(static_cast<double>(rank.memory_bytes())), 100 * rank.efficiency());
}

}  // namespace

nlohmann::ordered_json estimate_json(const RankEstimate& rank) {
  nlohmann::ordered_json sent = nlohmann::ordered_json::object();
  for (const auto& [kind, bytes] : rank.bytes_per_step) sent[kind] = bytes;
  return {{"ranks", rank.ranks},
          {"parameter_bytes", rank.memory.parameter_bytes},
          {"gradient_bytes", rank.memory.gradient_bytes},
          {"optimizer_bytes", rank.memory.optimizer_bytes},
          {"activation_bytes", rank.memory.activation_bytes},
          {"exchange_bytes", rank.exchange_bytes},
          {"memory_bytes", rank.memory_bytes()},
          {"checkpoint_bytes", rank.checkpoint_bytes},
          {"evaluation_bytes", rank.evaluation_bytes},
          {"bytes_per_step", std::move(sent)},
          {"compute_seconds", rank.compute_seconds},
          {"update_seconds", rank.update_seconds},
          {"exchange_seconds", rank.exchange_seconds},
          {"record_seconds", rank.record_seconds},
          {"step_seconds", rank.step_seconds},
          {"communication", rank.communication()},
          {"efficiency", rank.efficiency()}};
}

nlohmann::ordered_json layouts_json(const Recipe& recipe, const LayoutQuestion& question,
                                    const MachineSpeeds& speeds) {
  const LayoutPlan plan =
      search_layouts(recipe, question.ranks, question.memory, speeds, question.shown);
  nlohmann::ordered_json layouts = nlohmann::ordered_json::array();
  for (const PlannedLayout& planned : plan.fastest) layouts.push_back(layout_json(planned));
  return {{"ranks", question.ranks},       {"memory", question.memory},
          {"taken", plan.taken},           {"fitting", plan.fitting},
          {"layouts", std::move(layouts)}, {"least_memory", layout_json(*plan.least)}};
}

void print_layouts(const Recipe& recipe, const LayoutQuestion& question,
                   const MachineSpeeds& speeds) {
  const LayoutPlan plan =
      search_layouts(recipe, question.ranks, question.memory, speeds, question.shown);
  fmt::print("{} layouts of {} ranks are taken, of which {} fit; estimated from the speeds given\n",
             plan.taken, question.ranks, plan.fitting);
  fmt::print("{:>6} {:>7} {:>9} {:>9} {:>7} {:>7} {:>5} {:>11} {:>16} {:>12} {:>11}\n", "data",
             "tensor", "sequence", "pipeline", "chunks", "expert", "zero", "step", "communication",
             "memory", "efficiency");
  for (const PlannedLayout& planned : plan.fastest) print_row(planned);
  if (plan.fitting > 0) return;
  fmt::print("none fits {}; this one takes the least memory:\n", decimal_size(question.memory));
  print_row(*plan.least);
}

}  // namespace penstock
