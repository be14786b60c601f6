#include "penstock/train/step/part_record.h"

#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "penstock/base/failure_text.h"
#include "penstock/train/ranks/agreement.h"
#include "penstock/train/step_place.h"

namespace penstock {
namespace {

using Plain = nlohmann::json;  // as MessagePack it keeps the bits of integers and doubles

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RoutingRecord, layer, tokens, experts, merges, expert_tokens,
                                   lowest_taken, sparsity, losses, statistics)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NotFinite, part, value, culprit)

/// Calls field(name, member) for every number that a part adds to a report, except consistency.
template <class Report, class Field>
void for_fields_of_part(Report& report, const Field& field) {
  field("loss", report.loss);
  field("total_loss", report.total_loss);
  field("tokens", report.tokens);
  field("bytes", report.bytes);
  field("attended_pairs", report.attended_pairs);
  field("remembered_positions", report.remembered.positions);
  field("remembered_distances", report.remembered.distances);
  field("texts", report.texts);
  field("accuracy", report.accuracy);
}

Plain plain_of(const RankRecord& record) {
  Plain parts = Plain::array();
  for (const PartRecord& part : record.parts) {
    Plain seen;
    for_fields_of_part(part.seen, [&](const char* name, const auto& value) { seen[name] = value; });
    if (part.seen.consistency) seen["consistency"] = *part.seen.consistency;
    Plain routing = Plain::array();
    for (const RoutingRecord& layer : part.routing) {
      Plain entry;
      to_json(entry, layer);
      if (layer.idle_assignments > 0) entry["idle_assignments"] = layer.idle_assignments;
      routing.push_back(std::move(entry));
    }
    parts.push_back({{"part", part.part},
                     {"weight", part.weight},
                     {"seen", std::move(seen)},
                     {"routing", std::move(routing)}});
  }
  Plain out = {{"parts", std::move(parts)},
               {"seconds", record.seconds},
               {"signal", record.signal},
               {"failure", record.failure}};
  if (record.not_finite) to_json(out["not_finite"], *record.not_finite);
  return out;
}

RankRecord record_from(const Plain& json) {
  RankRecord out{.seconds = json.at("seconds").get<double>(),
                 .signal = json.at("signal").get<int>(),
                 .failure = json.at("failure").get<std::string>()};
  if (json.contains("not_finite")) from_json(json["not_finite"], out.not_finite.emplace());
  for (const Plain& entry : json.at("parts")) {
    PartRecord& part = out.parts.emplace_back();
    part.part = entry.at("part").get<std::size_t>();
    part.weight = entry.at("weight").get<double>();
    const Plain& seen = entry.at("seen");
    for_fields_of_part(part.seen,
                       [&](const char* name, auto& value) { seen.at(name).get_to(value); });
    if (seen.contains("consistency")) part.seen.consistency = seen["consistency"].get<double>();
    for (const Plain& layer : entry.at("routing")) {
      RoutingRecord& record = part.routing.emplace_back();
      from_json(layer, record);
      record.idle_assignments = layer.value("idle_assignments", std::int64_t{0});
    }
  }
  return out;
}

}  // namespace

RoutingPass routing_pass(std::int64_t layer, const RoutingResult& result) {
  const Plan& plan = result.plan;
  RoutingPass out{.record = {.layer = layer,
                             .tokens = plan.tokens,
                             .experts = plan.experts,
                             .merges = plan.merges(),
                             .expert_tokens = plain_counts(plan),
                             .idle_assignments = plan.assignments() - active_assignments(plan),
                             .sparsity = sparsity(plan)},
                  .lowest_taken = plan.lowest_taken};
  for (const auto& [part, loss] : result.loss_terms) out.losses[part] = loss.detach();
  for (const auto& [name, value] : result.statistics)
    if (value.numel() == 1) out.statistics[name] = value.detach();
  return out;
}

RoutingRecord read(RoutingPass pass) {
  pass.record.lowest_taken = plain_scores(pass.lowest_taken);
  for (const auto& [part, loss] : pass.losses) pass.record.losses[part] = loss.item<double>();
  for (const auto& [name, value] : pass.statistics)
    pass.record.statistics[name] = value.item<double>();
  return std::move(pass.record);
}

std::string to_bytes(const RankRecord& record) {
  const auto bytes = Plain::to_msgpack(plain_of(record));
  return {bytes.begin(), bytes.end()};
}

double typical_record_bytes(double parts, double layers, double experts) {
  // Most are the names of the numbers. Of an expert there is one count, below 2^16: three bytes.
  return 40 + parts * (180 + layers * (150 + 3 * experts));
}

RankRecord record_of_failure(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const StepStopped& stopped) {
    return {.signal = stopped.signal()};
  } catch (const std::exception& error) {
    return {.failure = failure_text(error)};
  }
}

std::vector<RankRecord> exchange_records(const dist::ProcessGroup& group, const RankRecord& mine,
                                         const std::exception_ptr& thrown) {
  if (group.size() == 1) {
    if (thrown) std::rethrow_exception(thrown);
    return {mine};
  }
  std::vector<RankRecord> out;
  for (const std::string& text : group.gather(to_bytes(mine)))
    out.push_back(record_from(Plain::from_msgpack(text)));
  // A failure comes before a signal: if one rank failed, no rank throws StepStopped.
  std::vector<std::string> failures;
  for (const RankRecord& record : out) failures.push_back(record.failure);
  throw_first_failure(group, failures, thrown);
  for (const RankRecord& record : out)
    if (record.signal != 0) throw StepStopped(record.signal);
  return out;
}

}  // namespace penstock
