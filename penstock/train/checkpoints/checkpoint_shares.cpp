#include "penstock/train/checkpoints/checkpoint_shares.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "penstock/models/formats/rank_slices.h"

namespace penstock {
namespace {

/// Ranks that hold the same slice, by group. The ranks of a group divide the slice's moments, in
/// their order.
struct Holders {
  Slice slice;
  std::int64_t offset = 0;                 // FilePart::offset, equal on all holders
  std::map<int, std::vector<int>> groups;  // by color, ascending
};

struct HeldTensor {
  FilePart first;  // the part of the first rank
  std::vector<Holders> holders;

  std::vector<int> ranks() const {
    std::vector<int> out;
    for (const Holders& each : holders)
      for (const auto& [color, group] : each.groups)
        out.insert(out.end(), group.begin(), group.end());
    std::ranges::sort(out);
    return out;
  }
};

/// The spans of a parameter that the ranks of a group keep, by the rank's index in the group.
struct ParameterSpans {
  bool moves = false;  // with zero = 3 ranks keep only these spans of the weights too
  std::vector<std::pair<std::size_t, Span>> spans;
};

std::map<std::string, ParameterSpans> spans_by_parameter(const ModelConfig& config,
                                                         const ShareSettings& settings) {
  const dist::Layout& layout = settings.layout;
  ParameterPredicate of_experts;
  if (layout.divides_experts())
    of_experts = [names = expert_parameters(config)](const std::string& name) {
      return names.contains(name);
    };
  const int replicas = layout.divides_experts() ? layout.expert_copies() : layout.data;
  std::map<std::string, ParameterSpans> out;
  for (const ParameterUnit& unit :
       parameter_units(settings.trained, of_experts, layout.data, replicas))
    for (std::size_t rank = 0; rank < unit.spans.size(); ++rank)
      for (const Span& span : unit.spans[rank]) {
        ParameterSpans& found = out[settings.trained[unit.parameters[span.parameter]].name];
        found.moves = unit.layer >= 0 && unit.spans.size() > 1;
        found.spans.emplace_back(rank, span);
      }
  return out;
}

std::map<std::string, HeldTensor> held_by_stage(const ModelConfig& config,
                                                const ShareSettings& settings, int stage) {
  const dist::Layout& layout = settings.layout;
  const std::vector<ModelTensor> tensors = model_tensors(config);
  std::map<std::pair<int, int>, std::vector<FilePart>> of_parts;
  std::map<std::string, HeldTensor> out;
  const int ranks = layout.data * layout.tensor;
  for (int rank = stage * ranks; rank < (stage + 1) * ranks; ++rank) {
    const ModelPart part = part_of_rank(config, layout, rank, settings.chunks);
    std::vector<FilePart>& held = of_parts[{part.tensor, part.expert}];
    if (held.empty()) held = file_parts(tensors, config, part);
    const dist::GroupColors colors = dist::colors_of(layout, rank);
    for (const FilePart& each : held) {
      if (each.role == TensorRole::balancer && stage > 0) continue;
      HeldTensor& tensor = out.try_emplace(each.name, HeldTensor{.first = each}).first->second;
      auto same = std::ranges::find(tensor.holders, each.slice, &Holders::slice);
      if (same == tensor.holders.end())
        same = tensor.holders.insert(same, {.slice = each.slice, .offset = each.offset});
      const bool apart = layout.divides_experts() && each.of_expert;
      same->groups[apart ? colors.replicas : colors.data].push_back(rank);
    }
  }
  return out;
}

/// The ranks of the group that holds the owner, or of the first group if no group holds it.
const std::vector<int>& nearest_group(const Holders& holders, int owner) {
  for (const auto& [color, group] : holders.groups)
    if (std::ranges::binary_search(group, owner)) return group;
  return holders.groups.begin()->second;
}

/// The ranges of a slice and the ranks that provide them.
/// @param spans  the parameter's spans; null: each rank has all numbers
std::vector<HeldRange> ranges_of(const Holders& holders, std::int64_t numbers, int owner,
                                 const ParameterSpans* spans) {
  const std::vector<int>& group = nearest_group(holders, owner);
  if (!spans) {
    const bool own = std::ranges::binary_search(group, owner);
    return {{own ? owner : group[static_cast<std::size_t>(owner) % group.size()], 0, numbers}};
  }
  std::vector<HeldRange> out;
  for (const auto& [index, span] : spans->spans) {
    const std::int64_t begin = std::max<std::int64_t>(span.begin - holders.offset, 0),
                       end = std::min(span.end - holders.offset, numbers);
    if (begin < end) out.push_back({group[index], begin, end});
  }
  return out;
}

}  // namespace

std::int64_t TensorShare::numbers() const {
  std::int64_t out = trained ? 3 : 1;
  for (const std::int64_t size : shape) out *= size;
  return out;
}

std::vector<TensorShare> checkpoint_shares(const ModelConfig& config, const ShareSettings& settings,
                                           int stage) {
  const auto held = held_by_stage(config, settings, stage);
  const auto spans = spans_by_parameter(config, settings);
  std::vector<TensorShare> out;
  std::vector<std::vector<int>> candidates;
  for (const auto& [name, tensor] : held) {
    candidates.push_back(tensor.ranks());
    out.push_back({.name = name,
                   .shape = tensor.first.slice.shape,
                   .trained = spans.contains(tensor.first.module)});
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < out.size(); ++i) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    return std::tuple(candidates[i].size(), -out[i].numbers());
  });
  std::map<int, std::int64_t> loads;
  for (const std::size_t i : order) {
    out[i].owner =
        *std::ranges::min_element(candidates[i], {}, [&](int rank) { return loads[rank]; });
    loads[out[i].owner] += out[i].numbers();
  }
  for (TensorShare& share : out) {
    const HeldTensor& tensor = held.at(share.name);
    const auto found = spans.find(tensor.first.module);
    const ParameterSpans* const kept =
        found == spans.end() || settings.zero == 0 ? nullptr : &found->second;
    for (const Holders& holders : tensor.holders) {
      const std::int64_t numbers = FilePart{.slice = holders.slice}.numbers();
      const bool moves = kept && kept->moves && settings.zero == 3;
      share.slices.push_back(
          {.slice = holders.slice,
           .weights = ranges_of(holders, numbers, share.owner, moves ? kept : nullptr),
           .moments = ranges_of(holders, numbers, share.owner, kept)});
    }
  }
  return out;
}

std::vector<std::vector<ShareItem>> share_turns(const std::vector<TensorShare>& shares,
                                                std::int64_t numbers) {
  std::vector<std::vector<ShareItem>> out;
  std::map<int, std::int64_t> sent, received;
  bool full = true;
  for (std::size_t i = 0; i < shares.size(); ++i)
    for (int kind = 0; kind < (shares[i].trained ? 3 : 1); ++kind) {
      if (full) out.emplace_back();
      if (full) sent.clear(), received.clear();
      full = false;
      out.back().push_back({i, kind});
      for (const SharedSlice& slice : shares[i].slices)
        for (const HeldRange& range : kind == 0 ? slice.weights : slice.moments) {
          if (range.rank == shares[i].owner) continue;
          full |= (sent[range.rank] += range.end - range.begin) >= numbers;
          full |= (received[shares[i].owner] += range.end - range.begin) >= numbers;
        }
    }
  return out;
}

}  // namespace penstock
