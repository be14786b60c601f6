#include "penstock/convert/export/portable_source.h"

#include <torch/types.h>

#include "penstock/convert/export/not_portable.h"
#include "penstock/convert/export/own_class.h"
#include "penstock/models/embedding_and_head_names.h"
#include "penstock/models/files/model_directory.h"

namespace penstock {
namespace {

/// Reorders rows of heads. With `to_adjacent`, rows for a rotation of pairs (i, i + hd/2) become
/// rows for a rotation of pairs (2i, 2i+1). Without it, the other way round.
/// @param rows [H·hd, ..]
at::Tensor reordered_rows(const at::Tensor& rows, std::int64_t head_dim, bool to_adjacent) {
  const std::int64_t half = head_dim / 2;
  const auto first =
      to_adjacent ? std::pair{std::int64_t{2}, half} : std::pair{half, std::int64_t{2}};
  const at::Tensor pairs =
      rows.reshape({-1, first.first, first.second, rows.numel() / rows.size(0)});
  return pairs.transpose(1, 2).contiguous().view(
      rows.sizes());  // [H, half, 2, ..] or [H, 2, half, ..]
}

bool of_queries_or_keys(const std::string& name) {
  for (const char* const part : {".q_proj.", ".k_proj.", ".q_norm.", ".k_norm."})
    if (name.find(part) != std::string::npos) return true;
  return false;
}

/// The tensor times two. No binary floating-point type rounds this.
at::Tensor doubled(const at::Tensor& tensor, const std::string& name) {
  at::Tensor out = tensor * 2;
  if (!out.isfinite().all().item<bool>())
    fail_not_portable("'", name, "' times two, which makes up for a gate that the model has not, ",
                      "is too large for its type");
  return out;
}

/// A shared expert's gate that is not zero. llama.cpp computes 0/0 for a gate of zeros.
at::Tensor some_gate(const std::vector<std::int64_t>& shape) {
  // The values lie in ±[1, 2]/64 and vary, so that no ordinary token has a product of exactly 0.
  at::Tensor out = at::arange(shape[1], at::kFloat).mul_(0.61803399).frac_().add_(1).div_(64);
  out.slice(0, 1, shape[1], 2).neg_();
  return out.view(shape);
}

}  // namespace

PortableSource::PortableSource(const ModelSource& from, const ExportTarget& target,
                               const std::vector<at::Tensor>& ones)
    : ConfigShapedSource(target.config, from.origin()),
      from_(from),
      gate_of_none_(target.gate_of_none) {
  const bool kept = is_own_class(target) && keeps_routers(from.config());
  if (config().moe_layers() > 0 && !kept) gates_ = folded_gates(from, ones);
  if (target.format != ExportFormat::kGguf || !from.config().moe.shared_gate) return;
  for (const auto& [name, shape] : shapes())
    if (name.ends_with("shared_expert_gate.weight") &&
        !finite_tensor(from, name).to(at::kFloat).any().item<bool>())
      fail_not_portable("'", name, "' is all zeros, of which llama.cpp makes 0/0");
}

at::Tensor PortableSource::made_up(const std::string& name) const {
  const std::vector<std::int64_t> wanted = shape(name);
  if (!name.ends_with("shared_expert_gate.weight")) return at::zeros(wanted, at::kFloat);
  // If the shared expert's output is 0, any gate is right. If the model's shared expert has no
  // gate, the gate must be 1/2.
  return from_.config().moe.shared_width > 0 ? some_gate(wanted) * gate_of_none_
                                             : some_gate(wanted);
}

at::Tensor PortableSource::reordered(const std::string& name, const at::Tensor& tensor) const {
  if (config().rope_adjacent == from_.config().rope_adjacent || !of_queries_or_keys(name))
    return tensor;
  return reordered_rows(tensor, config().head_dim, config().rope_adjacent);
}

at::Tensor PortableSource::tensor(const std::string& name) const {
  const ModelConfig& has = from_.config();
  if (const auto gate = gates_.find(name); gate != gates_.end()) return gate->second;
  if (name == kHeadTensor && has.tie_embeddings) return finite_tensor(from_, kEmbeddingsTensor);
  const bool bias = name.ends_with("_proj.bias") && !has.qkv_bias;
  const bool shared = name.find(".shared_expert") != std::string::npos;
  const bool no_gate = shared && config().moe.shared_gate && !has.moe.shared_gate;
  if (bias || (shared && has.moe.shared_width == 0)) return made_up(name);
  if (no_gate && name.ends_with("shared_expert_gate.weight")) return made_up(name);
  if (no_gate && name.ends_with("down_proj.weight"))
    return doubled(finite_tensor(from_, name), name);
  return reordered(name, finite_tensor(from_, name));
}

}  // namespace penstock
