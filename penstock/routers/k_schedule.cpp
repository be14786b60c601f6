#include "penstock/routers/k_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "penstock/base/error.h"
#include "penstock/base/random.h"

namespace penstock {
namespace {

/// Rounds as Python's round does: halves go to the even neighbour. The floating-point environment's
/// rounding mode does not matter.
std::int64_t round_half_even(double x) {
  const double below = std::floor(x);
  const double rest = x - below;
  const bool up = rest > 0.5 || (rest == 0.5 && std::fmod(below, 2) != 0);
  return static_cast<std::int64_t>(below) + (up ? 1 : 0);
}

std::int64_t stepped(const KSchedule& schedule, std::int64_t k, const RoutingContext& context) {
  const auto parts = static_cast<std::int64_t>(schedule.values.size()) + 1;
  std::int64_t part = 0;
  if (!schedule.at.empty())
    part = std::upper_bound(schedule.at.begin(), schedule.at.end(), context.step) -
           schedule.at.begin();
  else
    part = context.total_steps > 0 ? context.step * parts / context.total_steps : parts - 1;
  return part < parts - 1 ? schedule.values[part] : k;
}

constexpr std::uint64_t kDrawStream = 0x6b;  // "k"
constexpr const char* kTable = "model.router.topk.schedule.";

bool grows(const KSchedule& schedule) {
  return schedule.kind == KScheduleKind::linear || schedule.kind == KScheduleKind::cosine;
}

std::int64_t drawn(const KSchedule& schedule, std::int64_t step) {
  const std::uint64_t bits = random_bits(static_cast<std::uint64_t>(schedule.seed), kDrawStream,
                                         static_cast<std::uint64_t>(step));
  return schedule.values[random_below(bits, schedule.values.size())];
}

/// k of the linear and cosine schedules. REQUIRES: length > 0.
std::int64_t grown(const KSchedule& schedule, std::int64_t k, std::int64_t at_step,
                   std::int64_t length) {
  const auto step = static_cast<double>(std::min(at_step, length));
  const auto change = static_cast<double>(k - schedule.start);
  if (schedule.kind == KScheduleKind::linear)
    return schedule.start + round_half_even(change * step / static_cast<double>(length));
  const double angle = std::numbers::pi * step / (2 * static_cast<double>(length));
  return round_half_even(static_cast<double>(k) - change * std::cos(angle));
}

}  // namespace

void check_schedule(const KSchedule& schedule, const RouterShape& shape) {
  PENSTOCK_CHECK(
      schedule.kind == KScheduleKind::constant || std::fmod(shape.k, shape.granularity) == 0,
      "model.router.topk.schedule: the final k = ",
      shape.k / static_cast<double>(shape.granularity), " must be a whole number");
  const auto most = shape.experts / shape.granularity;
  const auto check_value = [&](const char* key, std::int64_t value) {
    PENSTOCK_CHECK(value >= 1 && value <= most, "model.router.topk.schedule.", key, ": k = ", value,
                   " must be from 1 to ", most, ", the number of experts");
  };
  if (grows(schedule)) check_value("start", schedule.start);
  const bool drawn = schedule.kind == KScheduleKind::drawn;
  const std::string kind =
      concat("model.router.topk.schedule.kind = \"", word(schedule.kind), "\"");
  PENSTOCK_CHECK(schedule.kind == KScheduleKind::steps || schedule.at.empty(), kind,
                 " takes no at, which belongs to \"steps\"");
  if (schedule.kind != KScheduleKind::steps && !drawn) {
    PENSTOCK_CHECK(schedule.values.empty(), kind,
                   " takes no values, which belong to \"steps\" and \"drawn\"");
    return;
  }
  for (const std::int64_t value : schedule.values) check_value("values", value);
  PENSTOCK_CHECK(!schedule.values.empty(), kind,
                 " needs values; give for example model.router.topk.schedule.values = ",
                 drawn ? "[1, 2, 4]" : "[2]");
  PENSTOCK_CHECK(schedule.at.empty() || schedule.at.size() == schedule.values.size(),
                 "model.router.topk.schedule.at has ", schedule.at.size(), " entries; the ",
                 schedule.values.size(), " values need as many");
  PENSTOCK_CHECK(std::is_sorted(schedule.at.begin(), schedule.at.end()),
                 "model.router.topk.schedule.at must not decrease");
}

std::vector<OptionNote> schedule_notes(const KSchedule& schedule, const RouterShape& shape,
                                       std::int64_t steps) {
  const KSchedule usual;
  std::vector<OptionNote> out;
  const auto unread = [&](const char* key, std::int64_t value, const char* readers) {
    out.push_back(
        {concat("schedule.", key), nothing_reads(concat(kTable, key, " = ", value),
                                                 concat(kTable, "kind = \"", word(schedule.kind),
                                                        "\"; ", readers, " read it"))});
  };
  if (!grows(schedule) && schedule.start != usual.start)
    unread("start", schedule.start, "\"linear\" and \"cosine\"");
  if (!grows(schedule) && schedule.over != usual.over)
    unread("over", schedule.over, "\"linear\" and \"cosine\"");
  if (schedule.kind != KScheduleKind::drawn && schedule.seed != usual.seed)
    unread("seed", schedule.seed, "\"drawn\" schedules");
  const auto final_k = static_cast<std::int64_t>(shape.k) / shape.granularity;
  if (grows(schedule) && schedule.over > steps)
    out.push_back({"schedule.over",
                   concat(kTable, "over = ", schedule.over, " is above train.steps = ", steps,
                          ": k ends at ", grown(schedule, final_k, steps - 1, schedule.over),
                          ", on the way to model.router.k = ", final_k)});
  if (!schedule.at.empty() && schedule.at.back() >= steps)
    out.push_back(
        {"schedule.at",
         concat(kTable, "at ends at step ", schedule.at.back(), ", which train.steps = ", steps,
                " does not come to: training never uses model.router.k = ", final_k)});
  return out;
}

std::int64_t scheduled_k(const KSchedule& schedule, const RouterShape& shape,
                         const RoutingContext& context) {
  if (context.k > 0) return context.k;
  const auto final_k = static_cast<std::int64_t>(shape.k);
  if (!context.training || schedule.kind == KScheduleKind::constant) return final_k;
  const std::int64_t nominal = final_k / shape.granularity;
  std::int64_t k = nominal;
  if (schedule.kind == KScheduleKind::steps) {
    k = stepped(schedule, nominal, context);
  } else if (schedule.kind == KScheduleKind::drawn) {
    k = drawn(schedule, context.step);
  } else {
    const std::int64_t length = schedule.over > 0 ? schedule.over : context.total_steps;
    // A run of unknown length uses the final k.
    if (length > 0) k = grown(schedule, nominal, context.step, length);
  }
  return k * shape.granularity;
}

}  // namespace penstock
