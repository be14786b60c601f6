#include "penstock/convert/upcycle/head_mixture.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "penstock/base/error.h"
#include "penstock/models/module_names.h"
#include "penstock/routers/parameter_names.h"

namespace penstock {
namespace {

constexpr double kTieNoise = 0.1;

std::string attention(std::int64_t layer, const char* tail) {
  return layer_stem(layer) + "self_attn." + tail;
}

/// The rows of each group's heads, one head after another.
/// @param by_head [H, ..]
at::Tensor of_groups(const at::Tensor& by_head, const std::vector<HeadGroup>& groups) {
  std::vector<at::Tensor> out;
  for (const HeadGroup& group : groups)
    out.push_back(by_head.index_select(0, torch::tensor(group, at::kLong)).flatten(0, 1));
  return at::stack(out);
}

}  // namespace

at::Tensor query_weight(const ModelSource& parent, const UpcycleOptions& options,
                        std::int64_t layer) {
  const at::Tensor weight = parent.tensor(attention(layer, "q_proj.weight")).to(at::kFloat);
  if (!options.correct_gain) return weight;
  const std::string stem = layer_stem(layer);
  return with_corrected_gain(weight, parent.tensor(stem + "input_layernorm.weight"),
                             parent.tensor(stem + "post_attention_layernorm.weight"));
}

at::Tensor query_bias(const ModelSource& parent, const UpcycleOptions& options,
                      std::int64_t layer) {
  return options.query_bias && parent.config().qkv_bias
             ? parent.tensor(attention(layer, "q_proj.bias")).to(at::kFloat)
             : at::Tensor();
}

RouterTensors mixture_of_heads(const HeadGroups& groups, const at::Tensor& query_weight,
                               const at::Tensor& query_bias, const at::Tensor& keys) {
  const std::int64_t heads = keys.size(0), width = keys.size(1), d = query_weight.size(1);
  RouterTensors out;
  out[kHeadQueries] =
      of_groups(query_weight.reshape({heads, width, d}), groups.queries);  // [m, d', d]
  out[kHeadKeys] = of_groups(keys.to(at::kFloat), groups.keys);            // [keys, d']
  if (query_bias.defined())
    out[kHeadQueryBias] = of_groups(query_bias.reshape({heads, width}), groups.queries);  // [m, d']
  return out;
}

at::Tensor query_maps(const ModelSource& parent, const UpcycleOptions& options,
                      const HeadGroups& groups, std::int64_t layer) {
  const at::Tensor weight = query_weight(parent, options, layer);
  const std::int64_t heads = parent.config().heads * groups.parts;
  return of_groups(weight.reshape({heads, -1, weight.size(1)}), groups.queries);
}

at::Tensor with_corrected_gain(const at::Tensor& query_weight, const at::Tensor& attention_gain,
                               const at::Tensor& expert_gain) {
  const at::Tensor ratio = attention_gain.to(at::kDouble) / expert_gain.to(at::kDouble);
  const at::Tensor read = ratio.masked_fill(expert_gain.eq(0), 0);  // [d]
  return (query_weight.to(at::kDouble) * read).to(at::kFloat);
}

std::int64_t break_ties(at::Tensor& keys, const InitialDraws& draws) {
  std::int64_t tied = 0;
  const at::Tensor given = keys.clone();
  for (std::int64_t i = 1; i < keys.size(0); ++i)
    for (std::int64_t j = 0; j < i; ++j) {
      if (!given[i].equal(given[j])) continue;
      const double scale = given[i].square().mean().sqrt().item<double>();
      const at::Tensor noise = at::empty_like(given[i]);
      draws.normal(concat("key_", i), noise, kTieNoise * std::max(scale, 1e-6));
      keys[i] += noise;
      ++tied;
      break;
    }
  return tied;
}

RouterTensors collapsed_mixture(const RouterTensors& mixture) {
  const at::Tensor& keys = mixture.at(kHeadKeys);
  const at::Tensor scaled = keys / std::sqrt(static_cast<double>(keys.size(1)));
  RouterTensors out;
  out[kScorerWeight] = scaled.matmul(mixture.at(kHeadQueries).sum(0));  // [E, d]
  if (mixture.contains(kHeadQueryBias))
    out[kScorerBias] = scaled.mv(mixture.at(kHeadQueryBias).sum(0));  // [E]
  return out;
}

double effective_lr_scale(const RouterTensors& mixture) {
  const auto mean_square = [](const at::Tensor& x) { return x.square().mean().item<double>(); };
  const at::Tensor& queries = mixture.at(kHeadQueries);
  const auto m = static_cast<double>(queries.size(0));
  return std::sqrt(m * m * mean_square(mixture.at(kHeadKeys)) + mean_square(queries.sum(0)));
}

}  // namespace penstock
