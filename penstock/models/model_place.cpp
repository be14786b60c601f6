#include "penstock/models/model_place.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "penstock/base/error.h"

namespace penstock {
namespace {

struct Divided {
  std::string what;  ///< the key, or keys, that give the size
  std::int64_t size;
};

/// Checks that `parts` ranks can divide each of these sizes evenly.
void check_axis(const char* key, int parts, const std::vector<Divided>& all) {
  if (parts == 1) return;
  std::int64_t common = 0;
  for (const Divided& one : all) common = std::gcd(common, one.size);
  for (const auto& [what, size] : all)
    PENSTOCK_CHECK(size % parts == 0, key, " = ", parts, " does not divide ", what, " = ", size,
                   "; the nearest value that does is ", nearest_divisor(common, parts));
}

/// The sizes of which each rank of parallel.tensor has an equal part.
std::vector<Divided> divided_by_tensor(const ModelConfig& config, bool whole_experts) {
  std::vector<Divided> out = {{"model.heads", config.heads}, {"model.kv_heads", config.kv_heads}};
  if (config.moe_layers() < config.layers)
    out.push_back({config.moe.dense_width > 0 ? "model.moe.dense_width" : "model.d_ffn",
                   config.dense_width()});
  if (config.moe_layers() == 0) return out;
  if (!whole_experts)
    out.push_back(
        {config.moe.granularity > 1 ? "model.d_ffn / model.moe.granularity" : "model.d_ffn",
         config.expert_width()});
  if (config.moe.shared_width > 0)
    out.push_back({"model.moe.shared_width", config.moe.shared_width});
  return out;
}

}  // namespace

std::int64_t nearest_divisor(std::int64_t size, std::int64_t wanted) {
  std::int64_t best = 1;
  for (std::int64_t d = 1; d <= size; ++d)
    if (size % d == 0 && std::abs(d - wanted) < std::abs(best - wanted)) best = d;
  return best;
}

bool ModelPart::holds(std::int64_t layer) const {
  return layers.empty() || std::ranges::any_of(layers, [&](const IndexRange& range) {
           return range.first <= layer && layer < range.last;
         });
}

std::vector<IndexRange> layers_of_stage(std::int64_t layers, int stage, int stages, int chunks) {
  const std::int64_t pieces = std::int64_t{stages} * chunks;
  const auto first = [&](std::int64_t piece) {
    return layers / pieces * piece + std::min(piece, layers % pieces);
  };
  std::vector<IndexRange> out;
  for (std::int64_t piece = stage; piece < pieces; piece += stages)
    out.push_back({first(piece), first(piece + 1)});
  return out;
}

ModelPart part_of_rank(const ModelConfig& config, const dist::Layout& layout, int rank,
                       int chunks) {
  const dist::Coordinates at = dist::coordinates_of(layout, rank);
  ModelPart out{.tensor = at.tensor,
                .tensors = layout.tensor,
                .expert = dist::expert_part(layout, at),
                .expert_ranks = layout.expert,
                .whole_experts = layout.whole_experts};
  if (layout.pipeline > 1)
    out.layers = layers_of_stage(config.layers, at.pipeline, layout.pipeline, chunks);
  return out;
}

ModelPlace place_in(const ModelConfig& config, const dist::Mesh& mesh, int chunks) {
  return {.part = part_of_rank(config, mesh.layout, mesh.world.rank(), chunks),
          .rows = {mesh.tensor, mesh.layout.sequence},
          .expert = mesh.expert};
}

void check_divides(const ModelConfig& config, const dist::Layout& layout) {
  check_axis("parallel.tensor", layout.tensor, divided_by_tensor(config, layout.whole_experts));
  if (config.moe_layers() > 0)
    check_axis("parallel.expert", layout.expert,
               {{config.moe.granularity > 1 ? "model.moe.experts x model.moe.granularity"
                                            : "model.moe.experts",
                 config.total_experts()}});
  else
    PENSTOCK_CHECK(layout.expert == 1, "parallel.expert = ", layout.expert,
                   ": this model has no experts; set it to 1");
  PENSTOCK_CHECK(layout.tensor == 1 || config.norm_of_qk() != QkNorm::whole,
                 "parallel.tensor = ", layout.tensor,
                 ": model.qk_norm is a norm over all heads together, which ranks with some of them "
                 "cannot take; set parallel.tensor to 1");
  PENSTOCK_CHECK(layout.tensor == 1 || config.ffn_form().dropout == 0,
                 "parallel.tensor = ", layout.tensor,
                 ": dropout inside a feed-forward is drawn over all its neurons; set it to 1");
  PENSTOCK_CHECK(layout.pipeline <= config.layers, "parallel.pipeline = ", layout.pipeline,
                 " stages for ", config.layers, " layers; each needs one: set it to ",
                 config.layers, " or less");
  PENSTOCK_CHECK(
      layout.pipeline == 1 || config.moe_layers() == 0 || !config.traits().shared_by_layers,
      "parallel.pipeline = ", layout.pipeline,
      ": the layers' routers have parameters in common, which stages would hold several "
      "times; leave the router's option `share` off, or set parallel.pipeline to 1");
  for (const auto& [key, size] :
       {std::pair{"tensor", layout.tensor}, {"pipeline", layout.pipeline}})
    PENSTOCK_CHECK(size == 1 || !config.transformer_xl(), "parallel.", key, " = ", size,
                   ": a Transformer-XL model is not divided so (its layers share position biases "
                   "and carry memory); use parallel.data or parallel.expert");
}

}  // namespace penstock
