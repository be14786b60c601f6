#include "penstock/models/tensor_names.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"

namespace penstock {
namespace {

bool ends_with(const std::string& text, const std::string& tail) {
  return text.size() >= tail.size() &&
         text.compare(text.size() - tail.size(), tail.size(), tail) == 0;
}

/// "layer_3.self_attn.o_proj.weight" -> "model.layers.3.self_attn.o_proj.weight".
std::string file_name(const std::string& name) {
  if (name == "embed_tokens") return "model.embed_tokens.weight";
  if (name == "lm_head") return "lm_head.weight";
  if (name == "head_bias") return "lm_head.bias";
  if (name.rfind("balancer_", 0) == 0) return "penstock." + name;
  if (name.rfind("layer_", 0) == 0) return "model.layers." + name.substr(6);
  return "model." + name;
}

void add_gate_up(const std::string& stem, const at::Tensor& fused,
                 std::map<std::string, at::Tensor>& out) {
  const std::int64_t f = fused.size(0) / 2;
  out[stem + "gate_proj.weight"] = fused.narrow(0, 0, f);
  out[stem + "up_proj.weight"] = fused.narrow(0, f, f);
}

/// Weight or bias, by `tail`.
void add_qkv(const std::string& stem, const std::string& tail, const at::Tensor& fused,
             const ModelConfig& config, std::map<std::string, at::Tensor>& out) {
  const std::int64_t q = config.heads * config.head_dim, kv = config.kv_heads * config.head_dim;
  out[stem + "q_proj" + tail] = fused.narrow(0, 0, q);
  out[stem + "k_proj" + tail] = fused.narrow(0, q, kv);
  out[stem + "v_proj" + tail] = fused.narrow(0, q + kv, kv);
}

void add(const std::string& name, const at::Tensor& tensor, const ModelConfig& config,
         std::map<std::string, at::Tensor>& out) {
  const std::string full = file_name(name);
  const auto stem = [&](const std::string& tail) {
    return full.substr(0, full.size() - tail.size());
  };
  const auto each_expert = [&](const std::string& tail, const std::string& part) {
    for (std::int64_t e = 0; e < tensor.size(0); ++e)
      out[stem(tail) + std::to_string(e) + part] = tensor.select(0, e);
  };
  if (ends_with(name, "mlp.experts.gate_up")) {
    for (std::int64_t e = 0; e < tensor.size(0); ++e)
      add_gate_up(stem("gate_up") + std::to_string(e) + ".", tensor.select(0, e), out);
  } else if (ends_with(name, "mlp.experts.up")) {
    each_expert("up", ".up_proj.weight");
  } else if (ends_with(name, "mlp.experts.up_bias")) {
    each_expert("up_bias", ".up_proj.bias");
  } else if (ends_with(name, "mlp.experts.down")) {
    each_expert("down", ".down_proj.weight");
  } else if (ends_with(name, "mlp.experts.down_bias")) {
    each_expert("down_bias", ".down_proj.bias");
  } else if (ends_with(name, "mlp.up")) {
    out[stem("up") + "up_proj.weight"] = tensor;
  } else if (ends_with(name, "mlp.up_bias")) {
    out[stem("up_bias") + "up_proj.bias"] = tensor;
  } else if (ends_with(name, "mlp.down_bias")) {
    out[stem("down_bias") + "down_proj.bias"] = tensor;
  } else if (ends_with(name, "self_attn.kv_proj.weight")) {
    const std::int64_t width = tensor.size(0) / 2;
    out[stem("kv_proj.weight") + "k_proj.weight"] = tensor.narrow(0, 0, width);
    out[stem("kv_proj.weight") + "v_proj.weight"] = tensor.narrow(0, width, width);
  } else if (ends_with(name, "mlp.gate_up") || ends_with(name, "mlp.shared_expert.gate_up")) {
    add_gate_up(stem("gate_up"), tensor, out);
  } else if (ends_with(name, "mlp.down") || ends_with(name, "mlp.shared_expert.down")) {
    out[stem("down") + "down_proj.weight"] = tensor;
  } else if (ends_with(name, "self_attn.qkv_proj.weight")) {
    add_qkv(stem("qkv_proj.weight"), ".weight", tensor, config, out);
  } else if (ends_with(name, "self_attn.qkv_proj.bias")) {
    add_qkv(stem("qkv_proj.bias"), ".bias", tensor, config, out);
  } else if (ends_with(name, "mlp.router.scorer.weight")) {
    out[stem("router.scorer.weight") + "gate.weight"] = tensor;
  } else {
    out[full] = tensor;
  }
}

}  // namespace

std::map<std::string, at::Tensor> file_tensors(LanguageModel& model) {
  std::map<std::string, at::Tensor> out;
  const ModelConfig& config = model.config();
  for (const auto& item : model.named_parameters())
    add(item.key(), item.value().detach(), config, out);
  for (const auto& item : model.named_buffers())
    add(item.key(), item.value().detach(), config, out);
  return out;
}

void load_file_tensors(LanguageModel& model, const std::map<std::string, at::Tensor>& tensors,
                       const std::string& where) {
  torch::NoGradGuard no_grad;
  auto wanted = file_tensors(model);
  for (const auto& [name, tensor] : tensors)
    PENSTOCK_CHECK(wanted.count(name), where, ": unknown tensor '", name,
                   "'; the config describes no such part");
  for (auto& [name, target] : wanted) {
    const auto found = tensors.find(name);
    PENSTOCK_CHECK(found != tensors.end(), where, ": tensor '", name, "' is missing");
    PENSTOCK_CHECK(found->second.sizes() == target.sizes(), where, ": tensor '", name,
                   "' has shape ", found->second.sizes(), ", the config asks for ", target.sizes());
    target.copy_(found->second);
  }
}

}  // namespace penstock
