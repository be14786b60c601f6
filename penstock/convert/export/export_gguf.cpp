#include "penstock/convert/export/export_gguf.h"

#include <map>
#include <span>

#include "penstock/base/error.h"
#include "penstock/convert/export/gguf_types.h"
#include "penstock/io/gguf_writer.h"
#include "penstock/models/formats/gguf_layout.h"

namespace penstock {
namespace {

GgufMetadata model_keys(const ExportTarget& target, ExportDtype dtype, const std::string& name) {
  const ModelConfig& c = target.config;
  const Architecture& as = *target.architecture;
  const std::string architecture(as.gguf.name);
  GgufMetadata out;
  const auto put = [&](const std::string& key, std::int64_t value) {
    PENSTOCK_CHECK(value >= 0 && value < std::int64_t{1} << 32, key, " = ", value,
                   " is beyond what GGUF files hold");
    out.emplace_back(key, GgufValue::u32(static_cast<std::uint32_t>(value)));
  };
  const auto of_model = [&](const char* key, std::int64_t value) {
    put(architecture + "." + key, value);
  };
  const auto number = [&](const char* key, double value) {
    out.emplace_back(architecture + "." + key, GgufValue::f32(static_cast<float>(value)));
  };
  out.emplace_back("general.architecture", GgufValue::string(architecture));
  out.emplace_back("general.type", GgufValue::string("model"));
  out.emplace_back("general.name", GgufValue::string(name));
  put("general.file_type", gguf_file_type(dtype));
  put("general.quantization_version", 2);
  of_model("context_length", c.context);
  of_model("embedding_length", c.d_model);
  of_model("block_count", c.layers);
  of_model("feed_forward_length", c.moe_layers() < c.layers ? c.dense_width() : c.expert_width());
  of_model("attention.head_count", c.heads);
  of_model("attention.head_count_kv", c.kv_heads);
  of_model("attention.key_length", c.head_dim);
  of_model("attention.value_length", c.head_dim);
  of_model("rope.dimension_count", c.head_dim);
  number("attention.layer_norm_rms_epsilon", c.norm_eps);
  number("rope.freq_base", c.rope_base);
  if (c.moe_layers() == 0) return out;
  of_model("expert_count", c.total_experts());
  of_model("expert_used_count", static_cast<std::int64_t>(c.active_experts()));
  if (as.hf.expert_width > 0) of_model("expert_feed_forward_length", c.expert_width());
  if (as.shared == SharedExpert::gated)
    of_model("expert_shared_feed_forward_length", c.moe.shared_width);
  if (as.shared == SharedExpert::plain) {
    of_model("expert_shared_count", c.moe.shared_width / c.expert_width());
    of_model("leading_dense_block_count", c.moe.dense_layers);
    number("expert_weights_scale", 1);
  }
  return out;
}

/// A tensor of the file, and the tensors of ours that it stacks in order.
struct Stacked {
  GgufPlanned planned;
  ExportDtype dtype;
  std::vector<std::string> parts;
};

std::vector<Stacked> plan_tensors(const ModelSource& portable, const GgufTypes& types) {
  std::map<std::string, std::map<std::int64_t, std::string>> parts;  // by file name, then expert
  for (const std::string& name : portable.names()) {
    const GgufPlace place = gguf_place(name);
    PENSTOCK_ASSERT(!place.tensor.empty(), name, " has no place in the format");
    parts[place.tensor][place.expert] = name;
  }
  std::vector<Stacked> out;
  for (const auto& [file_name, by_expert] : parts) {
    std::vector<std::int64_t> shape = portable.shape(by_expert.begin()->second);
    const bool stack = by_expert.begin()->first >= 0;
    if (!stack && shape.size() == 2 && shape[0] == 1) shape = {shape[1]};
    Stacked tensor = {.planned = {}, .dtype = types.of(file_name, shape), .parts = {}};
    if (stack) shape.insert(shape.begin(), std::ssize(by_expert));
    for (const auto& [expert, name] : by_expert) tensor.parts.push_back(name);
    tensor.planned = {file_name, ggml_dtype(tensor.dtype), std::move(shape)};
    out.push_back(std::move(tensor));
  }
  return out;
}

}  // namespace

Exported export_gguf(FileSystem& fs, const ModelSource& portable, const ExportTarget& target,
                     ExportDtype dtype, const GgufMetadata& tokenizer,
                     const std::filesystem::path& path, const ColumnWeights& weights) {
  const auto tensors = plan_tensors(portable, {dtype, portable.config()});
  std::vector<GgufPlanned> planned;
  std::vector<ExportDtype> types;
  for (const Stacked& tensor : tensors) {
    planned.push_back(tensor.planned);
    types.push_back(tensor.dtype);
  }
  Exported out{.dtype = gguf_file_dtype(dtype, types)};
  GgufMetadata metadata = model_keys(target, out.dtype, path.stem().string());
  metadata.insert(metadata.end(), tokenizer.begin(), tokenizer.end());
  GgufWriter writer(fs, path, metadata, std::move(planned));
  if (is_quantised(ggml_dtype(dtype))) out.notes.push_back(types_note(dtype, types));
  for (const Stacked& tensor : tensors)
    for (const std::string& part : tensor.parts) {
      const auto own = weights.find(part);
      const ExportedNumbers numbers(
          portable.tensor(part), tensor.dtype, part,
          own == weights.end() ? std::span<const float>() : std::span(own->second));
      out.rounded |= numbers.rounded();
      writer.write(tensor.planned.name, numbers.bytes());
    }
  writer.commit();
  return out;
}

}  // namespace penstock
