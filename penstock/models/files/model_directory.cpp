#include "penstock/models/files/model_directory.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/io/config_json.h"
#include "penstock/models/formats/architectures.h"
#include "penstock/models/formats/rank_slices.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/make_model.h"
#include "penstock/routers/written_out.h"

namespace penstock {

namespace {

/// Checks the tensor in pieces, because isfinite() takes several times the memory of its input.
bool all_finite(const at::Tensor& tensor) {
  constexpr std::int64_t kPiece = 1 << 20;
  const at::Tensor flat = tensor.reshape({-1});
  for (std::int64_t begin = 0; begin < flat.size(0); begin += kPiece)
    if (!flat.narrow(0, begin, std::min(kPiece, flat.size(0) - begin))
             .isfinite()
             .all()
             .item<bool>())
      return false;
  return true;
}

/// The tensor of that name, or a slice of it. Throws Error that names the tensor if it holds NaN or
/// infinity.
at::Tensor checked(at::Tensor tensor, const ModelSource& source, const std::string& name) {
  PENSTOCK_CHECK(all_finite(tensor), source.origin(), ": tensor '", source.stored_name(name),
                 "' holds NaN or infinity; such a model computes nothing, take an earlier one");
  return tensor;
}

}  // namespace

at::Tensor finite_tensor(const ModelSource& source, const std::string& name) {
  return checked(source.tensor(name), source, name);
}

std::string config_json_text(const ModelConfig& c) {
  PENSTOCK_ASSERT(c.is_resolved());
  const Architecture* const plain = plain_architecture(c);
  nlohmann::ordered_json out;
  out["architectures"] = {plain ? plain->hf.class_name : "PenstockForCausalLM"};
  out["model_type"] = plain ? plain->hf.model_type : "penstock";
  out["vocab_size"] = c.vocab;
  out["hidden_size"] = c.d_model;
  out["intermediate_size"] = c.moe_layers() == 0 ? c.d_ffn : c.expert_width();
  out["num_hidden_layers"] = c.layers;
  out["num_attention_heads"] = c.heads;
  out["num_key_value_heads"] = c.kv_heads;
  out["head_dim"] = c.head_dim;
  out["hidden_act"] = c.has_memory() ? "relu" : "silu";
  out["max_position_embeddings"] = c.context > 0 ? c.context : 2048;
  out["rms_norm_eps"] = c.norm_eps;
  out["rope_theta"] = c.rope_base;
  out["tie_word_embeddings"] = c.tie_embeddings;
  out["attention_bias"] = c.qkv_bias;
  out["torch_dtype"] = "float32";
  if (c.moe_layers() > 0) {
    out["num_experts"] = c.total_experts();
    out["num_experts_per_tok"] = c.active_experts();
  }
  ModelConfig whole = c;
  whole.router = written_out(c.router);
  out["penstock"] = {{"format", 1}, {"model", to_json(write_config(whole))}};
  return out.dump(2) + "\n";
}

std::shared_ptr<LanguageModel> load_model(const std::string& path) {
  return load_model(*open_model_source(path));
}

std::shared_ptr<LanguageModel> load_model(const ModelSource& source) {
  return load_model(source, source.config());
}

std::shared_ptr<LanguageModel> load_model(const ModelSource& source, const ModelConfig& config,
                                          const ModelPlace& place) {
  auto model = make_model(config, place);
  const torch::NoGradGuard no_grad;
  const std::map<std::string, at::Tensor> held = held_tensors(*model);
  std::int64_t numbers = 0;
  for (const auto& [name, tensor] : held) numbers += tensor.numel();
  for (const FilePart& part : file_parts(model_tensors(config), config, place.part)) {
    const at::Tensor read = checked(take(source.tensor(part.name), part.slice), source, part.name);
    part.place_in(held.at(part.module)).copy_(read);
    numbers -= part.numbers();
  }
  PENSTOCK_ASSERT(numbers == 0, "the description of a model's tensors misses some");
  model->eval();
  return model;
}

}  // namespace penstock
