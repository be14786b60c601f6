#include "penstock/train/step/accumulate.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "penstock/train/step/part_record.h"
#include "penstock/train/step/routing_sums.h"
#include "penstock/train/step/step_loads.h"
#include "penstock/train/step/step_parts.h"

namespace penstock {
namespace {

void add_part(const StepReport& part, StepReport& out) {
  out.loss += part.loss;
  out.total_loss += part.total_loss;
  if (part.consistency) out.consistency = out.consistency.value_or(0) + *part.consistency;
  out.tokens += part.tokens;
  out.bytes += part.bytes;
  out.attended_pairs += part.attended_pairs;
  out.remembered.positions += part.remembered.positions;
  out.remembered.distances += part.remembered.distances;
  out.texts += part.texts;
  out.accuracy += part.accuracy;
}

/// The passes of a part through its layers, of all ranks, in the order in which one process makes
/// them.
std::vector<const RoutingRecord*> in_order(const std::vector<const PartRecord*>& records) {
  struct Pass {
    int index;  // which pass of the part through the layer
    const RoutingRecord* layer;
  };
  std::vector<Pass> passes;
  std::map<std::int64_t, int> seen;
  for (const PartRecord* record : records)
    for (const RoutingRecord& layer : record->routing)
      passes.push_back({seen[layer.layer]++, &layer});
  std::ranges::stable_sort(passes, [](const Pass& a, const Pass& b) {
    return std::pair(a.index, a.layer->layer) < std::pair(b.index, b.layer->layer);
  });
  std::vector<const RoutingRecord*> out;
  for (const Pass& pass : passes) out.push_back(pass.layer);
  return out;
}

/// Describes the first part whose objective was not finite; "": all were finite.
/// @param replays  whether the parts ran again to find the layer
std::string non_finite_text(const std::vector<RankRecord>& ranks, bool replays) {
  std::optional<NotFinite> found;
  for (const RankRecord& rank : ranks)
    if (rank.not_finite && !rank.not_finite->value.empty() &&
        (!found || rank.not_finite->part < found->part))
      found = rank.not_finite;
  if (!found) return "";
  if (!replays) return "the loss is " + found->value;
  std::string culprit;  // from the first stage that found a layer
  for (const RankRecord& rank : ranks)
    if (culprit.empty() && rank.not_finite && rank.not_finite->part == found->part)
      culprit = rank.not_finite->culprit;
  return fmt::format("the loss is {}, first seen in {}", found->value,
                     culprit.empty() ? "the output head or an auxiliary loss" : culprit);
}

/// One report of all parts. The sums are in the order of the parts, for any number of ranks.
StepReport report_of(const std::vector<RankRecord>& ranks, StepWork& work, bool replays) {
  StepReport out;
  out.non_finite = non_finite_text(ranks, replays);
  if (!out.non_finite.empty()) return out;
  std::map<std::size_t, std::vector<const PartRecord*>> parts;
  for (const RankRecord& rank : ranks)
    for (const PartRecord& part : rank.parts) parts[part.part].push_back(&part);
  RoutingSums sums;
  double weights = 0;
  for (const auto& [index, records] : parts) {
    const double weight = records.front()->weight;
    for (const PartRecord* record : records) add_part(record->seen, out);
    for (const RoutingRecord* layer : in_order(records)) sums.add(*layer, weight);
    weights += weight;
  }
  work.finish(sums.computed_assignments(), out);
  sums.finish(work.passes() * weights, out);
  return out;
}

/// Counts the expert loads of the whole step and gives them to the balancers, if any needs them.
/// @return false where a rank failed; if this rank failed, `thrown` is its exception
bool know_loads(StepWork& work, std::uint64_t draw_seed, const std::vector<ModelMemory>& memory,
                const PartSharing& sharing, RoutingContext& context, std::exception_ptr& thrown) {
  if (!work.pools() || work.parts() == 1) return true;
  try {
    const at::Tensor requested = count_step(work, context, draw_seed, memory, sharing);
    context.reduce = [requested](std::int64_t layer, const at::Tensor&) {
      return requested[layer];
    };
    return requested.isfinite().all().item<bool>();
  } catch (const dist::LostRank&) {
    throw;
  } catch (...) {
    thrown = std::current_exception();
    return false;
  }
}

}  // namespace

StepReport accumulate(StepWork& work, const RoutingContext& context, std::uint64_t draw_seed,
                      std::vector<ModelMemory>& memory, const StepWatch& watch,
                      const PartSharing& sharing) {
  memory.resize(work.parts());
  RoutingContext complete = context;
  std::exception_ptr thrown;
  const bool counted = know_loads(work, draw_seed, memory, sharing, complete, thrown);
  StepParts mine(work, complete, draw_seed, memory, watch, sharing);
  if (counted) mine.run();
  if (mine.thrown()) thrown = mine.thrown();
  if (sharing.after_parts) sharing.after_parts();
  RankRecord record = thrown ? record_of_failure(thrown) : mine.record();
  if (!sharing.counts) record.parts.clear();
  record.seconds = mine.computed_seconds();
  const auto records = exchange_records(sharing.world, record, thrown);
  StepReport out = report_of(records, work, sharing.replays);
  if (records.size() > 1)
    for (const RankRecord& rank : records) out.rank_seconds.push_back(rank.seconds);
  out.forward_seconds = mine.forward_seconds();
  out.backward_seconds = mine.backward_seconds();
  return out;
}

}  // namespace penstock
