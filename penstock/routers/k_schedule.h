// The schedule of k: the number of experts per token at each step of a run.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "penstock/routers/option_notes.h"
#include "penstock/routers/routing.h"

namespace penstock {

enum class KScheduleKind { constant, steps, linear, cosine, drawn };
constexpr std::array<std::string_view, 5> words(KScheduleKind) {
  return {"constant", "steps", "linear", "cosine", "drawn"};
}

/// The schedule of k in a recipe. All kinds but `drawn` end at the router's nominal k. Values are
/// before granularity.
///   steps:   values[i] until step at[i], then k; without `at`, the run is cut into equal parts
///   linear:  start + round((k − start)·step/T)
///   cosine:  round(k + (start − k)·cos(π·step/2T))
///   drawn:   one of `values` at each step, drawn from the seed and the step alone. All layers and
///            all micro-batches of a step use the same value. A value listed twice is drawn twice
///            as often.
/// T is `over`, or the run's number of steps if `over` is 0. Halves are rounded to even. Outside
/// training k is nominal.
/// Source: SMoE-Dropout (arXiv:2303.01610) and HyperRouter (arXiv:2312.07035), authors' code.
struct KSchedule {
  KScheduleKind kind = KScheduleKind::constant;
  std::int64_t start = 1;
  std::int64_t over = 0;
  std::vector<std::int64_t> values;
  std::vector<std::int64_t> at;
  std::int64_t seed = 0;

  template <class V>
  void visit(V& v) {
    v("kind", kind, {.help = "form of the schedule of k"});
    v("start", start, {.help = "linear, cosine: k at step 0", .min = 1});
    v("over", over,
      {.help = "linear, cosine: length of the schedule; 0: the whole run",
       .min = 0,
       .unit = "steps"});
    v("values", values,
      {.help = "steps: the values of k before the final k; drawn: the values that k is drawn from",
       .min = 1});
    v("at", at,
      {.help = "steps: the step at which each value ends; empty: equal parts of the run",
       .min = 1});
    v("seed", seed, {.help = "drawn: seed of the draws", .min = 0});
  }
};

/// Throws Error if the schedule's fields contradict each other or exceed the number of experts.
void check_schedule(const KSchedule& schedule, const RouterShape& shape);

/// Notes on fields that this kind of schedule does not read, and on changes of k that lie beyond
/// the run's last step. Keys begin with "schedule.".
std::vector<OptionNote> schedule_notes(const KSchedule& schedule, const RouterShape& shape,
                                       std::int64_t steps);

/// Returns the schedule's k at the context's step, or the context's k if that is set. Granularity
/// is applied. The result is in [1, E] for a checked schedule.
std::int64_t scheduled_k(const KSchedule& schedule, const RouterShape& shape,
                         const RoutingContext& context);

}  // namespace penstock
