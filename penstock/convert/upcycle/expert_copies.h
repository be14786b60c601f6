// Makes experts from a dense model's feed-forwards: whole copies, or shards in virtual groups.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "penstock/models/model_source.h"

namespace penstock {

/// The scaling of shards, whose gates are spread over more experts.
enum class ShardScale {
  none,       ///< no scaling
  published,  ///< gate, up and down times ∛a; SiLU is not linear, so the function changes
  exact       ///< up and down times √a, which scales the result exactly by a
};
constexpr std::array<std::string_view, 3> words(ShardScale) {
  return {"none", "published", "exact"};
}

/// The name of the parent tensor from which an expert's tensor is made:
/// ".mlp.experts.<e>.up_proj.weight" and ".mlp.shared_expert.up_proj.weight" to
/// ".mlp.up_proj.weight"; other names are unchanged.
std::string parent_name(const std::string& name);

/// The expert's number in its tensor's name; -1 for other tensors.
std::int64_t expert_of(const std::string& name);

/// The factor of the chosen experts' results that makes uniform gates give the dense result: 1 for
/// G = 1; else
///   a = E'·G²/(kG)  if the softmax is over all E'·G logits,  a = G  if gates sum to one,
/// with E' experts before granularity and k active experts. 1 for gates that are not from a
/// softmax. Source: arXiv:2410.07524, section on virtual groups.
double shard_scale(const ModelConfig& config);

/// Makes an expert's tensor from the feed-forward's, with G = config.moe.granularity: expert e =
/// g·E' + i holds shard g of the inner neurons, rows [g·f/G, (g+1)·f/G) of gate and up and those
/// columns of down, scaled. With G = 1 it is the parent's tensor, bit for bit.
/// @param name    the expert's tensor, by models/formats/tensor_names.h
/// @param parent  [f, d] or [d, f]
at::Tensor expert_tensor(const std::string& name, const at::Tensor& parent,
                         const ModelConfig& config, ShardScale scale);

}  // namespace penstock
