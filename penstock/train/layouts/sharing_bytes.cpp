#include "penstock/train/layouts/sharing_bytes.h"

#include <algorithm>
#include <functional>

#include "penstock/train/ranks/gradient_tree.h"

namespace penstock {
namespace {

constexpr std::int64_t kNumberBytes = 4;  // fp32

std::int64_t whole(const ParameterUnit& unit) {
  std::int64_t out = 0;
  for (std::size_t rank = 0; rank < unit.spans.size(); ++rank)
    out += unit.elements(static_cast<int>(rank));
  return out;
}

std::int64_t most(const ParameterUnit& unit) {
  std::int64_t out = 0;
  for (std::size_t rank = 0; rank < unit.spans.size(); ++rank)
    out = std::max(out, unit.elements(static_cast<int>(rank)));
  return out;
}

std::int64_t least(const ParameterUnit& unit) {
  std::int64_t out = unit.elements(0);
  for (std::size_t rank = 1; rank < unit.spans.size(); ++rank)
    out = std::min(out, unit.elements(static_cast<int>(rank)));
  return out;
}

/// The most elements that one rank keeps of all units for which `taken` is true.
std::int64_t kept(const std::vector<ParameterUnit>& units, int ranks,
                  const std::function<bool(const ParameterUnit&)>& taken) {
  std::int64_t out = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::int64_t of_rank = 0;
    for (const ParameterUnit& unit : units)
      if (taken(unit)) of_rank += unit.elements(rank);
    out = std::max(out, of_rank);
  }
  return out;
}

/// The parts of the rank that has most.
std::int64_t rounds_of(const SharedSteps& steps) {
  const auto ranks = static_cast<std::size_t>(steps.ranks);
  return static_cast<std::int64_t>((steps.parts + ranks - 1) / ranks);
}

/// The most nodes, of all ranks, that wait for their other halves between rounds, if parts are
/// exchanged one by one.
std::int64_t nodes_of_rounds(const SharedSteps& steps) {
  std::size_t out = 0;
  for (std::size_t round = 1; round < static_cast<std::size_t>(rounds_of(steps)); ++round) {
    std::size_t nodes = 0;
    for (int rank = 0; rank < steps.ranks; ++rank) {
      const PartRange range = parts_of_rank(steps.parts, rank, steps.ranks);
      const PartRange done{range.first, std::min(range.first + round, range.last)};
      nodes += GradientTree::nodes_within(steps.parts, done).size();
    }
    out = std::max(out, nodes);
  }
  return static_cast<std::int64_t>(out);
}

/// The number of nodes that the busiest rank sends in a step, or at a time.
std::int64_t nodes_sent(const SharedSteps& steps, bool in_a_step) {
  std::size_t out = 0;
  for (int rank = 0; rank < steps.ranks; ++rank) {
    const PartRange range = parts_of_rank(steps.parts, rank, steps.ranks);
    const std::size_t rounds = in_a_step ? range.size() : std::min<std::size_t>(1, range.size());
    out = std::max(
        out, steps.zero >= 2 ? rounds : GradientTree::nodes_within(steps.parts, range).size());
  }
  return static_cast<std::int64_t>(out);
}

/// See shared_weights.h.
bool holds_one_copy(const SharedSteps& steps) {
  return steps.zero > 0 && steps.one_machine && steps.ranks > 1;
}

/// The most elements of gradients that a rank holds at a time with zero >= 2. The units are in the
/// order of a backward pass. While one layer's whole gradients are exchanged, those of the next
/// wait, and those of a third are computed; gradients of no layer last for the whole pass. In a
/// step of one round only the layers before these and the first of them have sums. In later rounds
/// all layers have nodes of earlier rounds, and the first has a span of its own part.
std::int64_t most_gradients(const std::vector<ParameterUnit>& units, const SharedSteps& steps,
                            std::int64_t own) {
  const std::int64_t nodes = own * nodes_of_rounds(steps);
  std::vector<const ParameterUnit*> layers;
  std::int64_t rest = 0, summed = 0, out = own;
  for (const ParameterUnit& unit : units)
    if (unit.layer < 0)
      rest += whole(unit);
    else
      layers.push_back(&unit);
  for (std::size_t first = 0; first < layers.size(); ++first) {
    std::int64_t three = 0;
    for (std::size_t i = first; i < std::min(first + 3, layers.size()); ++i)
      three += whole(*layers[i]);
    const std::int64_t before = rounds_of(steps) == 1 ? summed : nodes;
    out = std::max(out, three + before + most(*layers[first]));
    summed += most(*layers[first]);
  }
  return out + rest;
}

void count_held(const std::vector<ParameterUnit>& units, const SharedSteps& steps,
                std::int64_t total, SharingBytes& out) {
  std::int64_t rest = 0, largest = 0;
  for (const ParameterUnit& unit : units)
    (unit.layer < 0 ? rest : largest) =
        unit.layer < 0 ? whole(unit) : std::max(largest, whole(unit));
  const auto any = [](const ParameterUnit&) { return true; };
  const auto in_layer = [](const ParameterUnit& unit) { return unit.layer >= 0; };
  const std::int64_t own = kept(units, steps.ranks, any);
  std::int64_t weights = total;
  if (holds_one_copy(steps))
    weights = own;
  else if (steps.zero == 3)
    weights = rest + kept(units, steps.ranks, in_layer) + 2 * largest;
  out.parameters = kNumberBytes * weights;
  out.of_no_layer = kNumberBytes * rest;
  if (steps.zero == 3 && !holds_one_copy(steps))
    out.to_make_whole = kNumberBytes * std::max<std::int64_t>(0, total - rest - 2 * largest);
  out.optimizer = 2 * steps.moment_bytes * (steps.zero > 0 ? own : total);
  const auto copies = static_cast<std::int64_t>(GradientTree::copies(steps.parts, steps.ranks));
  out.gradients =
      kNumberBytes * (steps.zero >= 2 ? most_gradients(units, steps, own) : copies * total);
}

}  // namespace

SharingBytes sharing_bytes(const std::vector<ParameterSize>& parameters, const SharedSteps& steps) {
  const auto units = parameter_units(parameters, {}, steps.ranks, steps.ranks);
  std::int64_t total = 0;
  for (const ParameterSize& parameter : parameters) total += parameter.elements;
  SharingBytes out;
  count_held(units, steps, total, out);
  const std::int64_t others = steps.ranks - 1, at_a_time = nodes_sent(steps, false);
  if (others == 0) return out;
  std::int64_t slots = 0, layer_slots = 0, gathered = 0;
  for (const ParameterUnit& unit : units) {
    const std::int64_t spans = whole(unit) - least(unit);  // of others
    out.sent_gradients += kNumberBytes * spans * nodes_sent(steps, true);
    // The received nodes of other ranks, and their sum if there are several nodes.
    const std::int64_t nodes = at_a_time * others;
    const std::int64_t arrived = kNumberBytes * (nodes + (nodes > 1 ? 1 : 0)) * most(unit);
    out.exchange = std::max(out.exchange, arrived);
    // Buffers in which a message is packed and from which it is unpacked. With zero = 0 the sums
    // are still in the received buffer while they are sent.
    const std::int64_t whole = kNumberBytes * (1 + others) * most(unit);
    out.packed = std::max(
        {out.packed, kNumberBytes * at_a_time * spans, steps.zero == 0 ? whole : whole - arrived});
    if (unit.layer >= 0) gathered = std::max(gathered, whole);
    out.files = std::max(out.files, 2 * kNumberBytes * std::max(at_a_time * spans, most(unit)));
    (unit.layer < 0 ? slots : layer_slots) += kNumberBytes * others * most(unit);
  }
  if (holds_one_copy(steps)) return out;
  (steps.zero == 0 ? out.sent_sums : out.sent_weights) =
      slots + layer_slots * (steps.zero == 3 ? 2 * rounds_of(steps) * steps.passes : 1);
  if (steps.zero == 3) {  // weights arrive at the same time, over connections of their own
    out.packed += gathered;
    out.files *= 2;
  }
  return out;
}

}  // namespace penstock
