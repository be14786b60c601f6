#include "penstock/models/formats/rank_slices.h"

#include <torch/types.h>

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/models/embedding_and_head_names.h"

namespace penstock {
namespace {

/// The range of each axis of a tensor in files that the part holds.
std::vector<IndexRange> held_axes(const ModelTensor& tensor, const ModelPart& part) {
  std::vector<IndexRange> axes;
  for (const std::int64_t size : tensor.shape) axes.push_back({0, size});
  const bool whole_expert = part.whole_experts && tensor.experts > 0;
  if (tensor.split != TensorSplit::none && !whole_expert) {
    IndexRange& axis = tensor.split == TensorSplit::rows ? axes.front() : axes.back();
    axis = equal_part(axis.size(), part.tensor, part.tensors);
  }
  return axes;
}

/// Adds the held ranges of a tensor in files to the slice of its parameter.
void add_to(Slice& slice, const ModelTensor& tensor, const ModelPart& part) {
  const std::vector<IndexRange> axes = held_axes(tensor, part);
  // The tensor's first axis, as an axis of the parameter.
  const std::size_t first = tensor.experts > 0 ? 1 : 0;
  if (slice.shape.empty() && first == 1) {
    slice.shape = {tensor.experts};
    slice.ranges = {{equal_part(tensor.experts, part.expert, part.expert_ranks)}};
  }
  const bool begins = slice.shape.size() == first;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    if (begins) {
      slice.shape.push_back(tensor.shape[axis]);
      slice.ranges.push_back({axes[axis]});
    } else if (axis == 0) {  // further rows of a fused parameter
      slice.shape[first] += tensor.shape[0];
      slice.ranges[first].push_back(
          {tensor.first_row + axes[0].first, tensor.first_row + axes[0].last});
    }
  }
}

/// Joins ranges that are next to each other.
void join(std::vector<IndexRange>& ranges) {
  std::vector<IndexRange> out;
  for (const IndexRange& range : ranges) {
    if (!out.empty() && out.back().last == range.first)
      out.back().last = range.last;
    else
      out.push_back(range);
  }
  ranges = std::move(out);
}

}  // namespace

bool holds(const ModelConfig& config, const ModelPart& part, const ModelTensor& tensor) {
  if (tensor.layer >= 0) return part.holds(tensor.layer);
  if (tensor.role == TensorRole::balancer) return true;
  return part.holds(tensor.module == kEmbeddingsParameter ? 0 : config.layers - 1);
}

at::Tensor file_view(const at::Tensor& whole, const ModelTensor& tensor, std::int64_t expert) {
  const at::Tensor own = tensor.experts > 0 ? whole.select(0, expert) : whole;
  if (tensor.shape.empty() || own.size(0) == tensor.shape[0]) return own;
  return own.narrow(0, tensor.first_row, tensor.shape[0]);
}

std::map<std::string, Slice> model_slices(const ModelConfig& config, const ModelPart& part) {
  return model_slices(model_tensors(config), config, part);
}

std::map<std::string, Slice> model_slices(const std::vector<ModelTensor>& tensors,
                                          const ModelConfig& config, const ModelPart& part) {
  std::map<std::string, Slice> out;
  for (const ModelTensor& tensor : tensors)
    if (holds(config, part, tensor)) add_to(out[tensor.module], tensor, part);
  for (auto& [name, slice] : out)
    for (auto& axis : slice.ranges) join(axis);
  return out;
}

std::map<std::string, at::Tensor> file_views(const ModelConfig& config,
                                             const std::map<std::string, at::Tensor>& whole) {
  std::map<std::string, at::Tensor> out;
  std::int64_t numbers = 0;
  for (const ModelTensor& tensor : model_tensors(config)) {
    const auto found = whole.find(tensor.module);
    PENSTOCK_ASSERT(found != whole.end(), "the model has no ", tensor.module);
    for (std::int64_t e = 0; e < std::max<std::int64_t>(1, tensor.experts); ++e) {
      at::Tensor& part = out[tensor.name(e)] = file_view(found->second, tensor, e);
      numbers += part.numel();
    }
  }
  for (const auto& [name, tensor] : whole) numbers -= tensor.numel();
  PENSTOCK_ASSERT(numbers == 0, "the description of a model's tensors misses some");
  return out;
}

std::int64_t FilePart::numbers() const {
  std::int64_t out = 1;
  for (const std::int64_t size : slice.part_shape()) out *= size;
  return out;
}

at::Tensor FilePart::place_in(const at::Tensor& held) const {
  return held.view(-1).narrow(0, offset, numbers()).view(slice.part_shape());
}

std::vector<FilePart> file_parts(const std::vector<ModelTensor>& tensors, const ModelConfig& config,
                                 const ModelPart& part) {
  const auto slice_of = [&](const ModelTensor& tensor) {
    Slice out{.shape = tensor.shape};
    for (const IndexRange& axis : held_axes(tensor, part)) out.ranges.push_back({axis});
    return out;
  };
  // Counts of held numbers, per expert if there are experts. `numbers` is the total of a module;
  // `before` is the count before each tensor.
  std::map<std::string, std::int64_t> numbers;
  std::vector<std::int64_t> before;
  for (const ModelTensor& tensor : tensors) {
    std::int64_t& done = numbers[tensor.module];
    before.push_back(done);
    done += FilePart{.slice = slice_of(tensor)}.numbers();
  }
  std::vector<FilePart> out;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const ModelTensor& tensor = tensors[t];
    if (!holds(config, part, tensor)) continue;
    IndexRange experts{0, 1};
    if (tensor.experts > 0) experts = equal_part(tensor.experts, part.expert, part.expert_ranks);
    for (std::int64_t e = experts.first; e < experts.last; ++e)
      out.push_back({.name = tensor.name(e),
                     .module = tensor.module,
                     .role = tensor.role,
                     .of_expert = tensor.experts > 0,
                     .slice = slice_of(tensor),
                     .offset = before[t] + (e - experts.first) * numbers[tensor.module]});
  }
  return out;
}

std::set<std::string> expert_parameters(const ModelConfig& config) {
  std::set<std::string> out;
  for (const ModelTensor& tensor : backbone_tensors(config))
    if (tensor.experts > 0) out.insert(tensor.module);
  return out;
}

std::set<std::string> parameters_in_shares(const std::vector<ModelTensor>& tensors,
                                           const dist::Layout& layout) {
  std::set<std::string> out;
  if (layout.tensor == 1) return out;
  for (const ModelTensor& tensor : tensors)
    if (tensor.gradient == GradientShare::of_heads ||
        (layout.sequence && tensor.gradient == GradientShare::of_rows))
      out.insert(tensor.module);
  return out;
}

std::set<std::string> first_held(const ModelConfig& config, const dist::Layout& layout, int rank,
                                 int chunks) {
  const dist::Coordinates at = dist::coordinates_of(layout, rank);
  const auto tensors = model_tensors(config);
  const auto slices_at = [&](const dist::Coordinates& place) {
    return model_slices(tensors, config,
                        part_of_rank(config, layout, rank_at(layout, place), chunks));
  };
  // The slices of ranks before this one along each axis, which may be the same slices.
  std::vector<std::map<std::string, Slice>> before;
  const auto add = [&](bool moves, const dist::Coordinates& place) {
    if (moves) before.push_back(slices_at(place));
  };
  add(at.tensor > 0, {at.data, 0, at.pipeline});
  add(at.data > 0, {0, at.tensor, at.pipeline});
  const dist::Coordinates experts = dist::first_with_experts(layout, at);
  add(experts != at, experts);
  for (int stage = 0; stage < at.pipeline; ++stage) add(true, {at.data, at.tensor, stage});
  std::set<std::string> out;
  for (const auto& [name, slice] : slices_at(at)) {
    const bool held =
        std::ranges::any_of(before, [&, &name = name, &slice = slice](const auto& map) {
          const auto found = map.find(name);
          return found != map.end() && found->second == slice;
        });
    if (!held) out.insert(name);
  }
  return out;
}

}  // namespace penstock
