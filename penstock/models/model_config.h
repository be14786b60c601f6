// The config of a model, in a recipe or in a model directory's config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/fields.h"
#include "penstock/layers/moe.h"
#include "penstock/routers/plain_router.h"

namespace penstock {

/// The largest model.context. Counts of bytes and sums of positions stay within 64 bits.
inline constexpr std::int64_t kLongestContext = std::int64_t{1} << 31;

struct MoeConfig {
  std::int64_t experts = 0;
  std::int64_t granularity = 1;
  std::int64_t first_layers = -1;
  std::int64_t every = 1;
  std::int64_t dense_layers = 0;
  std::int64_t dense_width = 0;
  std::int64_t shared_width = 0;
  bool shared_gate = false;

  /// The index among all layers of MoE layer `moe_layer`; both count from 0.
  std::int64_t layer_of(std::int64_t moe_layer) const { return dense_layers + moe_layer * every; }

  template <class V>
  void visit(V& v) {
    v("experts", experts,
      {.help = "number of experts E before granularity; 0 or 1: dense", .min = 0, .max = 65536});
    v("granularity", granularity,
      {.help = "G: E -> E*G experts of width f/G, k -> k*G active experts", .min = 1, .max = 4096});
    v("first_layers", first_layers,
      {.help = "only the first n layers are MoE; -1: all", .min = -1});
    v("every", every,
      {.help = "every n-th layer is MoE, counted from the first MoE layer", .min = 1});
    v("dense_layers", dense_layers,
      {.help = "the first n layers are dense, as DeepSeekMoE's first layer", .min = 0});
    v("dense_width", dense_width,
      {.help = "FFN width of the dense layers in a model that also has MoE layers; 0: d_ffn",
       .min = 0,
       .max = 1 << 24});
    v("shared_width", shared_width,
      {.help = "FFN width of a shared expert, which every token passes; 0: none",
       .min = 0,
       .max = 1 << 24});
    v("shared_gate", shared_gate,
      {.help = "multiply the shared expert's output by sigmoid(w x), as Qwen2-MoE does"});
  }
};

/// Options of Transformer-XL alone.
struct TransformerXlConfig {
  std::int64_t memory = -1;
  double dropout = 0, ffn_dropout = -1;
  std::int64_t ffn_blocks = 16;
  double ffn_block_dropout = 0;
  bool biases_per_layer = false;
  std::vector<std::int64_t> cutoffs;

  template <class V>
  void visit(V& v) {
    v("memory", memory,
      {.help = "memory positions before the segment that attention also reads; -1: context",
       .min = -1,
       .max = kLongestContext});
    v("dropout", dropout,
      {.help = "dropout of embeddings, relative distances and sub-layers, inside feed-forwards and "
               "before the head",
       .min = 0,
       .max = 0.99});
    v("ffn_dropout", ffn_dropout,
      {.help = "dropout inside feed-forwards; -1: dropout", .min = -1, .max = 0.99});
    v("ffn_blocks", ffn_blocks,
      {.help = "number n of neuron blocks in a dense feed-forward: neuron j is in block j mod n",
       .min = 1});
    v("ffn_block_dropout", ffn_block_dropout,
      {.help = "chance that a step drops a block of neurons, without rescaling the others",
       .min = 0,
       .max = 0.99});
    v("biases_per_layer", biases_per_layer,
      {.help =
           "each layer has its own position biases u and v; false: all layers share the model's"});
    v("cutoffs", cutoffs,
      {.help = "token ids, sorted by frequency, at which the clusters of adaptive softmax begin; "
               "none: one softmax"});
  }
};

/// The norm of queries and keys before positions: none, over all heads together, or over each head.
enum class QkNorm { none, whole, head };

/// decoder: Llama- and Qwen2-like models.
enum class ModelKind { decoder, transformer_xl };
constexpr std::array<std::string_view, 2> words(ModelKind) { return {"decoder", "transformer-xl"}; }

/// The standard deviation of initial weights. normal: init_std for every matrix, divided by
/// sqrt(2L) for outputs into the residual stream. fan_in: 1 / sqrt(3 fan_in) for every matrix, and
/// init_std only for embeddings. flat: init_std for every matrix, including outputs into the
/// residual stream.
enum class WeightInit { normal, fan_in, flat };
constexpr std::array<std::string_view, 3> words(WeightInit) { return {"normal", "fan-in", "flat"}; }

struct ModelConfig {
  ModelKind architecture = ModelKind::decoder;
  std::int64_t vocab = 256;
  std::int64_t d_model = 256;
  std::int64_t layers = 4;
  std::int64_t heads = 8;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t d_ffn = 0;
  std::int64_t context = 0;
  bool tie_embeddings = false;
  bool qkv_bias = false;
  bool qk_norm = false;
  bool qk_norm_per_head = false;
  double clip_qkv = 0;
  double rope_base = 1e4;
  bool rope_adjacent = false;
  double norm_eps = 1e-5;
  WeightInit init = WeightInit::normal;
  double init_std = 0.02;
  MoeConfig moe;
  RouterConfig router = no_router();
  TransformerXlConfig xl;

  template <class V>
  void visit(V& v) {
    v("architecture", architecture,
      {.help = "decoder: Llama- and Qwen2-like; transformer-xl: post-norm, relative positions, "
               "carried memory, ReLU with biases, tied embeddings"});
    v("vocab", vocab,
      {.help = "vocabulary size V; 0: the corpus's size", .min = 0, .max = 1 << 24});
    v("d_model", d_model, {.help = "model width d", .min = 1, .max = 1 << 20});
    v("layers", layers, {.help = "number of layers L", .min = 1, .max = 10000});
    v("heads", heads, {.help = "number of attention heads", .min = 1, .max = 1 << 16});
    v("kv_heads", kv_heads, {.help = "number of key/value heads (groups); 0: heads", .min = 0});
    v("head_dim", head_dim,
      {.help = "width of an attention head; 0: d_model / heads", .min = 0, .max = 1 << 16});
    v("d_ffn", d_ffn,
      {.help = "FFN width f of a dense layer, or of one expert before granularity; 0: 4 d_model",
       .min = 0,
       .max = 1 << 24});
    v("context", context,
      {.help = "longest sequence that the model is meant for; 0: the training length",
       .min = 0,
       .max = kLongestContext});
    v("tie_embeddings", tie_embeddings, {.help = "the output head shares the embedding matrix"});
    v("qkv_bias", qkv_bias, {.help = "biases of q, k and v, as in Qwen2"});
    v("qk_norm", qk_norm,
      {.help = "one RMS norm over all heads of q, and one over all heads of k, before positions, "
               "as in OLMoE"});
    v("qk_norm_per_head", qk_norm_per_head,
      {.help =
           "an RMS norm over each head of q and of k, with one gain for all heads, as in Qwen3"});
    v("clip_qkv", clip_qkv,
      {.help = "clamp q, k and v to +- this value before positions; 0: no clamp", .min = 0});
    v("rope_base", rope_base, {.help = "base of the rotary angles", .min = 1});
    v("rope_adjacent", rope_adjacent,
      {.help = "rotate adjacent pairs, as llama2.c does, instead of the two halves"});
    v("norm_eps", norm_eps, {.help = "epsilon of the RMS norms", .min = 0, .max = 1});
    v("init", init,
      {.help = "normal: standard deviation init_std for every matrix, divided by sqrt(2L) for "
               "outputs into the residual stream; fan-in: 1 / sqrt(3 fan_in) for every matrix, the "
               "standard deviation of uniform +-1/sqrt(fan_in), and init_std for embeddings alone; "
               "flat: init_std for every matrix, also for outputs into the residual stream"});
    v("init_std", init_std, {.help = "standard deviation of initial weights", .min = 0});
    v("moe", moe);
    v("router", router);
    v("transformer_xl", xl);
  }

  bool transformer_xl() const { return architecture == ModelKind::transformer_xl; }
  /// Whether rows carry a memory from segment to segment, so that text may be longer than
  /// `context`.
  bool has_memory() const { return transformer_xl(); }
  /// Fills in the values that are 0 and checks that the numbers fit together. It builds nothing and
  /// does not change a resolved config.
  /// Throws Error if the numbers do not fit.
  ModelConfig resolved() const;
  /// Whether resolved() has filled in all values; it does not check again that they fit. The maker
  /// of a config resolves it, and code that computes with a config asserts this.
  bool is_resolved() const {
    return kv_heads > 0 && head_dim > 0 && d_ffn > 0 && (!transformer_xl() || xl.memory >= 0);
  }
  /// Whether the layer is an MoE layer.
  bool is_moe(std::int64_t layer) const;
  /// Number of MoE layers.
  std::int64_t moe_layers() const;
  /// The indices of the MoE layers among all layers, in ascending order.
  std::vector<std::int64_t> moe_layer_indices() const;
  /// The number of experts in an MoE layer and the FFN width of an expert, after granularity is
  /// applied.
  std::int64_t total_experts() const { return moe.experts * moe.granularity; }
  std::int64_t expert_width() const { return d_ffn / moe.granularity; }
  /// FFN width of a dense layer.
  std::int64_t dense_width() const { return moe.dense_width > 0 ? moe.dense_width : d_ffn; }
  QkNorm norm_of_qk() const {
    return qk_norm ? QkNorm::whole : qk_norm_per_head ? QkNorm::head : QkNorm::none;
  }
  /// Entries of the norm's gain for a projection with `of_heads` heads; 0 without a norm.
  std::int64_t norm_width(std::int64_t of_heads) const {
    return qk_norm ? of_heads * head_dim : qk_norm_per_head ? head_dim : 0;
  }
  /// The nominal number of active experts per token, after granularity is applied.
  double active_experts() const { return router.k * static_cast<double>(moe.granularity); }
  /// The form of the experts' and the dense layers' feed-forward network.
  FfnForm ffn_form() const;
  /// Standard deviation of a matrix's initial weights. `fan_in` is the width that the matrix sums
  /// over.
  double weight_std(std::int64_t fan_in) const;
  /// The same for a matrix that writes into the residual stream.
  double output_std(std::int64_t fan_in) const;
  /// The traits of the router. A dense model has the traits of no router. Each call reads the
  /// options; a built model keeps the traits (LanguageModel::traits).
  RouterTraits traits() const;
  /// Whether routing outside training depends on no later tokens; true for a dense model.
  bool causal() const;
  /// Whether routing is causal because it uses thresholds instead of the choice in training
  /// (Scores::thresholds).
  bool by_thresholds() const;
  /// Options of one MoE layer; `index` counts MoE layers.
  MoeOptions moe_options(std::int64_t index) const;
};

/// The note on losses under a router that is not causal; one sentence without a full stop.
inline constexpr std::string_view kNotCausal =
    "where a token goes depends on tokens after it, so its loss was measured with a look at what "
    "it predicts: not comparable with a causal router's, and out of reach when generating";

/// The note for a router whose experts choose by thresholds.
inline constexpr std::string_view kByThresholds =
    "trained with a choice among all tokens of a batch, and here an expert takes each token whose "
    "score reaches the threshold that training found, which is causal; how many it takes may "
    "differ";

/// The note on this model's loss, "method 'm' is not causal: ..."; "" if there is none.
std::string choice_note(const ModelConfig& config);

}  // namespace penstock
