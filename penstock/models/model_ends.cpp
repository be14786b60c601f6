#include "penstock/models/model_ends.h"

#include <torch/types.h>

#include "penstock/models/transformer_xl_layer.h"

namespace penstock {
namespace {

constexpr const char *kEmbeddings = "embed_tokens", *kFinalNorm = "norm", *kHeadRows = "lm_head",
                     *kHeadBias = "head_bias", *kClusterWeight = "cluster_weight",
                     *kClusterBias = "cluster_bias";
constexpr const char *kModelInFiles = "model.", *kEmbeddingsInFiles = "model.embed_tokens.",
                     *kHeadInFiles = "lm_head.";

/// A matrix with a row for each token.
at::Tensor registered_rows(torch::nn::Module& model, const char* name, const ModelConfig& c) {
  return model.register_parameter(name, torch::empty({c.vocab, c.d_model}));
}

void describe_rows(const ModelConfig& c, const char* file, const char* module,
                   std::vector<ModelTensor>& out) {
  LayerTensors(out, file, "")
      .add("weight", module, {c.vocab, c.d_model}, TensorRole::embedding, GradientShare::of_rows);
}

std::int64_t clusters(const ModelConfig& c) {
  return static_cast<std::int64_t>(c.xl.cutoffs.size());
}

}  // namespace

void DecoderEnds::register_first(torch::nn::Module& model, const ModelConfig& c) {
  embed_tokens = registered_rows(model, kEmbeddings, c);
}

void DecoderEnds::register_last(torch::nn::Module& model, const ModelConfig& c) {
  norm = model.register_module(kFinalNorm, std::make_shared<RmsNorm>(c.d_model, c.norm_eps));
  if (!c.tie_embeddings) lm_head = registered_rows(model, kHeadRows, c);
}

void DecoderEnds::describe(const ModelConfig& c, std::vector<ModelTensor>& out) {
  describe_rows(c, kEmbeddingsInFiles, kEmbeddings, out);
  RmsNorm::describe(c.d_model, LayerTensors(out, kModelInFiles, "").below(kFinalNorm));
  if (!c.tie_embeddings) describe_rows(c, kHeadInFiles, kHeadRows, out);
}

void DecoderEnds::initialize(const ModelConfig& c, const InitialDraws& draws) const {
  if (embed_tokens.defined()) draws.normal(kEmbeddings, embed_tokens, c.init_std);
  if (lm_head.defined()) draws.normal(kHeadRows, lm_head, c.init_std);
}

void TransformerXlEnds::register_first(torch::nn::Module& model, const ModelConfig& c) {
  embed_tokens = registered_rows(model, kEmbeddings, c);
  if (!c.xl.biases_per_layer)
    biases = PositionBiases::registered(model, relative_attention_config(c));
}

void TransformerXlEnds::register_last(torch::nn::Module& model, const ModelConfig& c) {
  head.cutoffs = c.xl.cutoffs;
  head.bias = model.register_parameter(kHeadBias, torch::zeros({c.vocab}));
  if (clusters(c) == 0) return;
  head.cluster_weight =
      model.register_parameter(kClusterWeight, torch::empty({clusters(c), c.d_model}));
  head.cluster_bias = model.register_parameter(kClusterBias, torch::zeros({clusters(c)}));
}

void TransformerXlEnds::describe(const ModelConfig& c, std::vector<ModelTensor>& out) {
  describe_rows(c, kEmbeddingsInFiles, kEmbeddings, out);
  const LayerTensors model(out, kModelInFiles, "");
  if (!c.xl.biases_per_layer) PositionBiases::describe(relative_attention_config(c), model);
  LayerTensors(out, kHeadInFiles, "").add("bias", kHeadBias, {c.vocab});
  if (clusters(c) == 0) return;
  model.add(kClusterWeight, kClusterWeight, {clusters(c), c.d_model});
  model.add(kClusterBias, kClusterBias, {clusters(c)});
}

void TransformerXlEnds::initialize(const ModelConfig& c, const InitialDraws& draws) const {
  draws.normal(kEmbeddings, embed_tokens, c.init_std);
  if (biases.content.defined()) biases.initialize(c.init_std, draws);
  if (head.cluster_weight.defined()) draws.normal(kClusterWeight, head.cluster_weight, c.init_std);
}

}  // namespace penstock
