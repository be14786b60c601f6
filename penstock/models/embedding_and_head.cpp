#include "penstock/models/embedding_and_head.h"

#include <torch/types.h>

#include "penstock/models/embedding_and_head_names.h"
#include "penstock/models/transformer_xl_layer.h"

namespace penstock {
namespace {

/// A matrix with a row for each token.
at::Tensor registered_rows(torch::nn::Module& model, const char* name, const ModelConfig& c) {
  return model.register_parameter(name, torch::empty({c.vocab, c.d_model}));
}

void describe_rows(const ModelConfig& c, const char* file, const char* module,
                   const LayerTensors& out) {
  out.add(file, module, {c.vocab, c.d_model}, TensorRole::embedding, GradientShare::of_rows);
}

std::int64_t clusters(const ModelConfig& c) {
  return static_cast<std::int64_t>(c.xl.cutoffs.size());
}

}  // namespace

void DecoderEmbeddingAndHead::register_first(torch::nn::Module& model, const ModelConfig& c) {
  embed_tokens = registered_rows(model, kEmbeddingsParameter, c);
}

void DecoderEmbeddingAndHead::register_last(torch::nn::Module& model, const ModelConfig& c) {
  norm = model.register_module(kFinalNormModule, std::make_shared<RmsNorm>(c.d_model, c.norm_eps));
  if (!c.tie_embeddings) lm_head = registered_rows(model, kHeadParameter, c);
}

void DecoderEmbeddingAndHead::describe(const ModelConfig& c, std::vector<ModelTensor>& out) {
  const LayerTensors ends(out, "", "");
  describe_rows(c, kEmbeddingsTensor, kEmbeddingsParameter, ends);
  RmsNorm::describe(c.d_model, LayerTensors(out, "model.", "").below(kFinalNormModule));
  if (!c.tie_embeddings) describe_rows(c, kHeadTensor, kHeadParameter, ends);
}

void DecoderEmbeddingAndHead::initialize(const ModelConfig& c, const InitialDraws& draws) const {
  if (embed_tokens.defined()) draws.normal(kEmbeddingsParameter, embed_tokens, c.init_std);
  if (lm_head.defined()) draws.normal(kHeadParameter, lm_head, c.init_std);
}

void TransformerXlEmbeddingAndHead::register_first(torch::nn::Module& model, const ModelConfig& c) {
  embed_tokens = registered_rows(model, kEmbeddingsParameter, c);
  if (!c.xl.biases_per_layer)
    biases = PositionBiases::registered(model, relative_attention_config(c));
}

void TransformerXlEmbeddingAndHead::register_last(torch::nn::Module& model, const ModelConfig& c) {
  head.cutoffs = c.xl.cutoffs;
  head.bias = model.register_parameter(kHeadBiasParameter, torch::zeros({c.vocab}));
  if (clusters(c) == 0) return;
  head.cluster_weight =
      model.register_parameter(kClusterWeightParameter, torch::empty({clusters(c), c.d_model}));
  head.cluster_bias = model.register_parameter(kClusterBiasParameter, torch::zeros({clusters(c)}));
}

void TransformerXlEmbeddingAndHead::describe(const ModelConfig& c, std::vector<ModelTensor>& out) {
  const LayerTensors ends(out, "", "");
  describe_rows(c, kEmbeddingsTensor, kEmbeddingsParameter, ends);
  if (!c.xl.biases_per_layer)
    PositionBiases::describe(relative_attention_config(c), LayerTensors(out, "model.", ""));
  ends.add(kHeadBiasTensor, kHeadBiasParameter, {c.vocab});
  if (clusters(c) == 0) return;
  ends.add(kClusterWeightTensor, kClusterWeightParameter, {clusters(c), c.d_model});
  ends.add(kClusterBiasTensor, kClusterBiasParameter, {clusters(c)});
}

void TransformerXlEmbeddingAndHead::initialize(const ModelConfig& c,
                                               const InitialDraws& draws) const {
  draws.normal(kEmbeddingsParameter, embed_tokens, c.init_std);
  if (biases.content.defined()) biases.initialize(c.init_std, draws);
  if (head.cluster_weight.defined())
    draws.normal(kClusterWeightParameter, head.cluster_weight, c.init_std);
}

}  // namespace penstock
