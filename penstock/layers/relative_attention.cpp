#include "penstock/layers/relative_attention.h"

#include <torch/types.h>

#include <cmath>

#include "penstock/ops/ops.h"

namespace penstock {
namespace {

constexpr const char *kContentBias = "content_bias", *kPositionBias = "position_bias";

}  // namespace

PositionBiases PositionBiases::registered(torch::nn::Module& module,
                                          const RelativeAttentionConfig& config) {
  const auto make = [&](const char* name) {
    return module.register_parameter(name, torch::empty({config.heads, config.head_dim}));
  };
  return {.content = make(kContentBias), .position = make(kPositionBias)};
}

void PositionBiases::describe(const RelativeAttentionConfig& config, const LayerTensors& at) {
  for (const char* const name : {kContentBias, kPositionBias})
    at.add(name, name, {config.heads, config.head_dim});
}

void PositionBiases::initialize(double std, const InitialDraws& draws) const {
  draws.normal(kContentBias, content, std);
  draws.normal(kPositionBias, position, std);
}

RelativeAttention::RelativeAttention(const RelativeAttentionConfig& config) : config_(config) {
  const std::int64_t width = config.heads * config.head_dim;
  const auto projection = [&](const char* name, std::int64_t in, std::int64_t out) {
    return register_module(name, std::make_shared<Projection>(in, out, false));
  };
  q_proj_ = projection("q_proj", config.d_model, width);
  kv_proj_ = projection("kv_proj", config.d_model, 2 * width);
  r_proj_ = projection("r_proj", config.d_model, width);
  o_proj_ = projection("o_proj", width, config.d_model);
}

void RelativeAttention::describe(const RelativeAttentionConfig& config, const LayerTensors& at) {
  const std::int64_t d = config.d_model, width = config.heads * config.head_dim;
  Projection::describe("q_proj", {{"q_proj", width, TensorRole::query, TensorSplit::rows}}, d,
                       /*bias=*/false, at);
  Projection::describe("kv_proj",
                       {{"k_proj", width, TensorRole::key_value, TensorSplit::rows},
                        {"v_proj", width, TensorRole::key_value, TensorSplit::rows}},
                       d, /*bias=*/false, at);
  Projection::describe("r_proj", {{"r_proj", width, TensorRole::distance}}, d, /*bias=*/false, at);
  Projection::describe("o_proj", {{"o_proj", d, TensorRole::output, TensorSplit::columns}}, width,
                       /*bias=*/false, at);
}

void RelativeAttention::initialize(double std, const InitialDraws& draws) {
  q_proj_->initialize(std, draws.of("q_proj"));
  kv_proj_->initialize(std, draws.of("kv_proj"));
  r_proj_->initialize(std, draws.of("r_proj"));
  o_proj_->initialize(std, draws.of("o_proj"));
}

at::Tensor RelativeAttention::forward(const at::Tensor& x, const at::Tensor& memory,
                                      const at::Tensor& distances, const PositionBiases& biases) {
  const at::Tensor read = memory.defined() ? torch::cat({memory, x}, 1) : x;  // [B, M+T, d]
  const double scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim));
  return o_proj_->forward(ops::relative_attention(q_proj_->forward(x), kv_proj_->forward(read),
                                                  r_proj_->forward(distances), biases.content,
                                                  biases.position, scale));
}

at::Tensor distance_table(std::int64_t count, std::int64_t d, const at::TensorOptions& options,
                          double base) {
  const at::Tensor distance = torch::arange(count, torch::kDouble);
  const at::Tensor frequency =
      torch::pow(base, torch::arange(0, d, 2, torch::kDouble) / static_cast<double>(d))
          .reciprocal();
  const at::Tensor angle = torch::outer(distance, frequency);  // [count, d/2]
  return torch::cat({angle.sin(), angle.cos()}, 1).to(options);
}

}  // namespace penstock
