// Layouts of 1,024 ranks over all axes: the groups of each rank and the slices that each rank
// holds, as pure functions compute them. No process is started and no model is built.
#pragma once

#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/models/formats/rank_slices.h"

namespace penstock::testing {

using dist::Layout;

/// ReMoE's 978M model with 64 experts. The tests never build it.
inline ModelConfig large_model() {
  ModelConfig out{.vocab = 51200, .d_model = 1536, .layers = 24, .heads = 16, .kv_heads = 4};
  out.d_ffn = 6144;
  out.moe.experts = 64;
  out.router.method = "remoe";
  return out.resolved();
}

struct PlanCase {
  Layout layout;
  int chunks = 1;
};

inline const PlanCase kPlanCases[] = {
    {{.data = 1024, .expert = 64}},
    {{.data = 256, .tensor = 4, .expert = 16}},
    {{.data = 64, .tensor = 4, .pipeline = 4, .expert = 64}},
    {{.data = 32, .tensor = 4, .pipeline = 8, .expert = 8}},
    {{.data = 128, .pipeline = 8, .expert = 64}, 3},
    {{.data = 64, .pipeline = 16, .expert = 32}},  // 24 layers: some stages have two
    {{.data = 64, .tensor = 4, .pipeline = 4, .expert = 64, .whole_experts = true}},
    {{.data = 256, .tensor = 4, .expert = 2, .whole_experts = true}},
    {{.data = 32, .tensor = 2, .pipeline = 16}},
    {{.data = 32, .tensor = 4, .pipeline = 8, .expert = 8, .sequence = true}},
};

inline std::string name_of(const PlanCase& plan) {
  const Layout& l = plan.layout;
  return concat("data ", l.data, " tensor ", l.tensor, " pipeline ", l.pipeline, " expert ",
                l.expert, l.whole_experts ? " whole" : "", " chunks ", plan.chunks);
}

enum class Axis { data, tensor, pipeline, expert, replicas, world };
inline constexpr Axis kAxes[] = {Axis::data, Axis::tensor, Axis::pipeline, Axis::expert,
                                 Axis::replicas};

inline int color_of(const Layout& layout, int rank, Axis axis) {
  const dist::GroupColors colors = dist::colors_of(layout, rank);
  const std::map<Axis, int> by_axis = {
      {Axis::data, colors.data},         {Axis::tensor, colors.tensor},
      {Axis::pipeline, colors.pipeline}, {Axis::expert, colors.expert},
      {Axis::replicas, colors.replicas}, {Axis::world, 0}};
  return by_axis.at(axis);
}

/// The ranks of each group by axis and color, in the order of ProcessGroup::split().
using Groups = std::map<std::pair<Axis, int>, std::vector<int>>;

inline Groups groups_of(const Layout& layout) {
  Groups out;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    for (const Axis axis : kAxes) out[{axis, color_of(layout, rank, axis)}].push_back(rank);
    out[{Axis::world, 0}].push_back(rank);
  }
  return out;
}

using Slices = std::map<std::string, Slice>;

/// The slices of each rank. Ranks that hold the same slices share an entry.
class Holdings {
 public:
  explicit Holdings(const PlanCase& plan)
      : plan_(plan), tensors_(model_tensors(config_.resolved())) {}
  const Slices& of(int rank) {
    const dist::Coordinates at = dist::coordinates_of(plan_.layout, rank);
    const auto [place, fresh] =
        slices_.try_emplace({at.tensor, dist::expert_part(plan_.layout, at), at.pipeline});
    if (fresh)
      place->second =
          model_slices(tensors_, config_, part_of_rank(config_, plan_.layout, rank, plan_.chunks));
    return place->second;
  }
  const ModelConfig& config() const { return config_; }

 private:
  PlanCase plan_;
  ModelConfig config_ = large_model();
  std::vector<ModelTensor> tensors_;
  std::map<std::tuple<int, int, int>, Slices> slices_;
};

inline std::int64_t elements(const Slice& slice) {
  const auto shape = slice.part_shape();
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace penstock::testing
