// Keys are untrusted: a number is used only if the file's tensors confirm it.
#include "penstock/models/formats/gguf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/member_names.h"
#include "penstock/models/formats/architectures.h"
#include "penstock/routers/plain_router.h"

namespace penstock {
namespace {

/// The largest width of a feed-forward network.
constexpr std::int64_t kWidest = 1 << 24;

/// Reads the values of keys that begin with the architecture's name.
class ModelKeys {
 public:
  ModelKeys(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  const GgufValue* find(std::string_view name) const { return file_.value(key(name)); }

  std::int64_t integer(std::string_view name) const {
    const auto found = integer_or(name, -1);
    PENSTOCK_CHECK(found >= 0, where(name), " is missing");
    return found;
  }
  std::int64_t integer_or(std::string_view name, std::int64_t otherwise) const {
    const GgufValue* const value = find(name);
    if (!value) return otherwise;
    const auto number = value->as_integer();
    PENSTOCK_CHECK(number && *number >= 0, where(name),
                   " is no whole number of 0 or more that holds for all layers");
    return *number;
  }
  double number_or(std::string_view name, double otherwise) const {
    const GgufValue* const value = find(name);
    if (!value) return otherwise;
    const auto number = value->as_number();
    PENSTOCK_CHECK(number && std::isfinite(*number), where(name), " is no finite number");
    return *number;
  }
  std::string where(std::string_view name) const {
    return file_.origin() + ": key '" + key(name) + "'";
  }
  /// The name in the file.
  std::string key(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

/// The number of a key; `otherwise`, if there is one, stands for an absent key.
std::int64_t bounded(const ModelKeys& keys, std::string_view name, std::int64_t largest,
                     std::optional<std::int64_t> otherwise = {}) {
  const std::int64_t value = otherwise ? keys.integer_or(name, *otherwise) : keys.integer(name);
  PENSTOCK_CHECK(value >= 1 && value <= largest, keys.where(name), " is ", value, "; 1 to ",
                 largest, " are possible");
  return value;
}

/// The sizes of a tensor. Throws Error unless it has `rank` axes.
std::vector<std::int64_t> sizes_of(const GgufFile& file, const std::string& name,
                                   std::size_t rank) {
  const GgufTensor* const tensor = file.find(name);
  PENSTOCK_CHECK(tensor, file.origin(), ": tensor '", name, "' is missing");
  PENSTOCK_CHECK(tensor->shape.size() == rank, file.origin(), ": tensor '", name, "' has ",
                 tensor->shape.size(), " axes, expected ", rank);
  return tensor->shape;
}

/// Throws Error unless the file's tensors have the number and the sizes that the keys give. Nothing
/// is built from the keys before this check.
void check_borne_out(const GgufFile& file, const ModelConfig& c) {
  PENSTOCK_CHECK(c.layers <= std::ssize(file.tensors()), file.origin(), ": the keys name ",
                 c.layers, " layers, the file has ", file.tensors().size(), " tensors");
  const auto embedding = sizes_of(file, "token_embd.weight", 2);
  PENSTOCK_CHECK(embedding[1] == c.d_model, file.origin(), ": tensor 'token_embd.weight' is ",
                 embedding[1], " wide, the keys say ", c.d_model);
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    sizes_of(file, block + "attn_norm.weight", 1);
    if (!c.is_moe(layer)) continue;
    const auto gate = sizes_of(file, block + "ffn_gate_inp.weight", 2);
    const auto experts = sizes_of(file, block + "ffn_up_exps.weight", 3);
    PENSTOCK_CHECK(gate[0] == c.moe.experts && gate[1] == c.d_model &&
                       experts[0] == c.moe.experts && experts[1] == c.d_ffn,
                   file.origin(), ": the tensors of '", block, "' hold ", experts[0],
                   " experts of width ", experts[1], ", the keys name ", c.moe.experts, " of ",
                   c.d_ffn);
  }
}

/// The architecture with that name. If a dense and an MoE architecture share the name, the file's
/// keys decide.
const Architecture& architecture_of(const GgufFile& file, const std::string& word,
                                    const ModelKeys& keys) {
  const Architecture* dense = nullptr;
  const Architecture* moe = nullptr;
  for (const Architecture& one : architectures())
    if (one.gguf.name == word) (one.experts ? moe : dense) = &one;
  PENSTOCK_CHECK(dense || moe, file.origin(), ": architecture '", word.substr(0, 40),
                 "' is not known; ",
                 list_architectures([](const Architecture& one) { return one.gguf.name; }),
                 " are read, Mixtral as llama");
  const std::int64_t experts = keys.integer_or("expert_count", 0);
  PENSTOCK_CHECK(experts > 0 || dense, keys.where("expert_count"), " is missing");
  PENSTOCK_CHECK(experts == 0 || moe, keys.where("expert_count"), ": ", experts,
                 " experts are not what this architecture has");
  return experts > 0 ? *moe : *dense;
}

void read_experts(const ModelKeys& keys, const Architecture& architecture, ModelConfig& c) {
  if (!architecture.experts) return;
  c.moe.experts = keys.integer("expert_count");
  PENSTOCK_CHECK(c.moe.experts >= 2 && c.moe.experts <= 65536, keys.where("expert_count"), ": ",
                 c.moe.experts, " experts are not what this architecture has");
  const std::int64_t used = bounded(keys, "expert_used_count", c.moe.experts);
  c.router = plain_router(
      {.k = static_cast<double>(used), .softmax_over_kept = architecture.gguf.renormalises});
  if (architecture.hf.expert_width == 0) return;
  const std::int64_t whole = c.d_ffn;
  c.d_ffn = bounded(keys, "expert_feed_forward_length", kWidest, whole / used);
  if (architecture.shared == SharedExpert::gated) {
    c.moe.shared_width = bounded(keys, "expert_shared_feed_forward_length", kWidest, whole);
    c.moe.shared_gate = true;
  }
  if (architecture.shared != SharedExpert::plain) return;
  const std::int64_t shared = keys.integer("expert_shared_count");
  PENSTOCK_CHECK(shared <= kWidest / c.d_ffn, keys.where("expert_shared_count"), ": ", shared,
                 " experts of width ", c.d_ffn, " are wider than ", kWidest);
  c.moe.shared_width = shared * c.d_ffn;
  c.moe.dense_layers = keys.integer("leading_dense_block_count");
  PENSTOCK_CHECK(c.moe.dense_layers < c.layers, keys.where("leading_dense_block_count"), " is ",
                 c.moe.dense_layers, " of ", c.layers, " layers");
  if (c.moe.dense_layers > 0 && whole != c.d_ffn) c.moe.dense_width = whole;
  PENSTOCK_CHECK(keys.number_or("expert_weights_scale", 1) == 1, keys.where("expert_weights_scale"),
                 ": only 1 is computed");
}

/// Throws Error if the file's positions are scaled.
void check_plain_positions(const GgufFile& file, const ModelKeys& keys) {
  const GgufValue* const scaling = keys.find("rope.scaling.type");
  PENSTOCK_CHECK(!scaling || (scaling->as_string() && *scaling->as_string() == "none"),
                 keys.where("rope.scaling.type"), ": scaled positions are not supported");
  // Other programs apply a factor without a type as linear scaling. A factor of 0 means none.
  if (!scaling)
    for (const char* const name :
         {"rope.scaling.factor", "rope.scale_linear", "rope.scaling.attn_factor"}) {
      const double factor = keys.number_or(name, 1);
      PENSTOCK_CHECK(factor == 0 || factor == 1, keys.where(name), " is ", factor,
                     ": scaled positions are not supported");
    }
  // Llama 3.1 and later have a factor for each frequency, and no key that says so.
  constexpr const char* kFactors = "rope_freqs.weight";
  PENSTOCK_CHECK(!file.find(kFactors), file.origin(), ": tensor '", kFactors,
                 "' scales positions, which is not supported");
}

void read_heads(const ModelKeys& keys, ModelConfig& c) {
  c.heads = bounded(keys, "attention.head_count", 1 << 16);
  c.kv_heads = bounded(keys, "attention.head_count_kv", c.heads, c.heads);
  c.head_dim = keys.integer_or("attention.key_length", c.d_model / c.heads);
  PENSTOCK_CHECK(c.head_dim >= 2 && c.head_dim <= 1 << 16, keys.where("attention.key_length"),
                 " makes heads ", c.head_dim, " wide");
  for (const char* const name : {"attention.value_length", "rope.dimension_count"})
    PENSTOCK_CHECK(keys.integer_or(name, c.head_dim) == c.head_dim, keys.where(name), " is not ",
                   c.head_dim, ", the width of a head; other models are not supported");
  c.rope_base = keys.number_or("rope.freq_base", 1e4);
  PENSTOCK_CHECK(c.rope_base >= 1, keys.where("rope.freq_base"), " is ", c.rope_base);
}

/// Throws Error for one of several files that hold a model together.
void check_is_whole(const GgufFile& file) {
  const GgufValue* const parts = file.value("split.count");
  const std::int64_t count = parts ? parts->as_integer().value_or(1) : 1;
  PENSTOCK_CHECK(count <= 1, file.origin(), ": is one of the ", count,
                 " files of a model; llama.cpp's llama-gguf-split joins them");
}

/// The file's key for a key of ModelConfig; "" if the file has no such key.
std::string gguf_key_of(const ModelKeys& keys, const std::string& key) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kNames = {
      {{"model.d_model", "embedding_length"},
       {"model.layers", "block_count"},
       {"model.heads", "attention.head_count"},
       {"model.kv_heads", "attention.head_count_kv"},
       {"model.head_dim", "attention.key_length"},
       {"model.d_ffn", "feed_forward_length"},
       {"model.moe.experts", "expert_count"},
       {"model.moe.shared_width", "expert_shared_feed_forward_length"},
       {"model.router.k", "expert_used_count"}}};
  const auto* const found =
      std::ranges::find(kNames, key, &std::pair<std::string_view, std::string_view>::first);
  return found == kNames.end() ? "" : keys.key(found->second);
}

/// The config with its derived values. Errors name the file and its keys.
ModelConfig resolved_of(const ModelConfig& config, const GgufFile& file, const ModelKeys& keys) {
  try {
    return config.resolved();
  } catch (const Error& error) {
    fail(file.origin(), ": ", with_model_keys(error.what(), [&](const std::string& key) {
           return gguf_key_of(keys, key);
         }));
  }
}

}  // namespace

ModelConfig read_gguf_config(const GgufFile& file) {
  check_is_whole(file);
  const GgufValue* const word = file.value("general.architecture");
  PENSTOCK_CHECK(word && word->as_string(), file.origin(),
                 ": key 'general.architecture' is missing");
  const ModelKeys keys(file, *word->as_string());
  const Architecture& architecture = architecture_of(file, *word->as_string(), keys);
  ModelConfig c;
  c.d_model = bounded(keys, "embedding_length", 1 << 20);
  c.layers = bounded(keys, "block_count", 10000);
  c.d_ffn = bounded(keys, "feed_forward_length", kWidest);
  c.context = bounded(keys, "context_length", kLongestContext);
  check_plain_positions(file, keys);
  read_heads(keys, c);
  c.norm_eps = keys.number_or("attention.layer_norm_rms_epsilon", -1);
  PENSTOCK_CHECK(c.norm_eps >= 0 && c.norm_eps <= 1, keys.where("attention.layer_norm_rms_epsilon"),
                 " is missing, or not from 0 to 1");
  read_experts(keys, architecture, c);
  c.rope_adjacent = architecture.gguf.rope_adjacent;
  c.qk_norm = architecture.qk_norm == QkNorm::whole;
  c.qk_norm_per_head = architecture.qk_norm == QkNorm::head;
  c.qkv_bias = file.find("blk.0.attn_q.bias") != nullptr;
  c.tie_embeddings = file.find("output.weight") == nullptr;
  check_borne_out(file, c);
  c.vocab = sizes_of(file, "token_embd.weight", 2)[0];
  return resolved_of(c, file, keys);
}

}  // namespace penstock
