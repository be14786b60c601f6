#include "penstock/models/formats/llama2c_layout.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "penstock/base/error.h"
#include "penstock/models/embedding_and_head_names.h"
#include "penstock/models/module_names.h"

namespace penstock {
namespace {

constexpr std::int32_t kLaterVersions = 0x616b3432;  // "ak42"
constexpr std::size_t kHeaderBytes = 7 * sizeof(std::int32_t);

Llama2cLayout read_header(std::span<const std::byte> file, const std::string& path) {
  std::array<std::int32_t, 7> header{};
  PENSTOCK_CHECK(file.size() >= kHeaderBytes, path, ": ", file.size(),
                 " bytes are too few for a llama2.c checkpoint");
  std::memcpy(header.data(), file.data(), kHeaderBytes);
  PENSTOCK_CHECK(header[0] != kLaterVersions, path,
                 ": is a llama2.c checkpoint of a later version; only version 0, which has no "
                 "magic number, is read");
  const std::array names = {"width",           "feed-forward width", "number of layers", "heads",
                            "key/value heads", "vocabulary",         "context"};
  for (std::size_t i = 0; i < header.size(); ++i) {
    const std::int64_t value = header[i], size = i == 5 && value < 0 ? -value : value;
    PENSTOCK_CHECK(size >= 1 && size <= (i == 2 ? 10000 : 1 << 24), path,
                   ": not a llama2.c checkpoint of version 0: its ", names[i], " would be ", value);
  }
  Llama2cLayout out{.d_model = header[0],
                    .d_ffn = header[1],
                    .layers = header[2],
                    .heads = header[3],
                    .kv_heads = header[4],
                    .vocab = std::abs(std::int64_t{header[5]}),
                    .context = header[6],
                    .tied = header[5] > 0};
  PENSTOCK_CHECK(out.d_model % out.heads == 0 && out.heads % out.kv_heads == 0, path,
                 ": not a llama2.c checkpoint of version 0: a width of ", out.d_model, " with ",
                 out.heads, " heads and ", out.kv_heads,
                 " key/value heads cannot be divided among them");
  return out;
}

/// The names and shapes of the tensors in the file's order. A tensor without a name is not part of
/// the model.
std::vector<Llama2cLayout::Tensor> shapes_of(const Llama2cLayout& c) {
  const std::int64_t d = c.d_model, f = c.d_ffn, width = d / c.heads, kv = c.kv_heads * width;
  std::vector<Llama2cLayout::Tensor> out;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    out.push_back({name, shape, {}});
  };
  const auto add_layers = [&](const std::string& tail, const std::vector<std::int64_t>& shape) {
    for (std::int64_t i = 0; i < c.layers; ++i) add(layer_stem(i) + tail, shape);
  };
  add(kEmbeddingsTensor, {c.vocab, d});
  add_layers("input_layernorm.weight", {d});
  add_layers("self_attn.q_proj.weight", {d, d});
  add_layers("self_attn.k_proj.weight", {kv, d});
  add_layers("self_attn.v_proj.weight", {kv, d});
  add_layers("self_attn.o_proj.weight", {d, d});
  add_layers("post_attention_layernorm.weight", {d});
  add_layers("mlp.gate_proj.weight", {f, d});
  add_layers("mlp.down_proj.weight", {d, f});
  add_layers("mlp.up_proj.weight", {f, d});
  add(kFinalNormTensor, {d});
  add("", {c.context, width});
  if (!c.tied) add(kHeadTensor, {c.vocab, d});
  return out;
}

}  // namespace

Llama2cLayout llama2c_layout(std::span<const std::byte> file, const std::string& path) {
  Llama2cLayout out = read_header(file, path);
  const auto bytes_of = [](const Llama2cLayout::Tensor& tensor) {
    double bytes = sizeof(float);
    for (const std::int64_t size : tensor.shape) bytes *= static_cast<double>(size);
    return bytes;
  };
  const auto bytes_with = [&](std::int64_t layers) {
    Llama2cLayout part = out;
    part.layers = layers;
    double bytes = kHeaderBytes;
    for (const auto& tensor : shapes_of(part)) bytes += bytes_of(tensor);
    return bytes;
  };
  // Counts bytes before it lists tensors, because a damaged header can ask for 90000 tensors. Uses
  // doubles, because no header can make them overflow.
  const double whole =
      bytes_with(0) + static_cast<double>(out.layers) * (bytes_with(1) - bytes_with(0));
  PENSTOCK_CHECK(whole == static_cast<double>(file.size()), path, ": has ", file.size(),
                 " bytes, and a llama2.c checkpoint with this header has ",
                 fmt::format("{:.0f}", whole), "; it is cut short or of another kind");
  std::size_t begin = kHeaderBytes;
  for (auto& tensor : shapes_of(out)) {
    const auto bytes = static_cast<std::size_t>(bytes_of(tensor));
    tensor.data = file.subspan(begin, bytes);
    begin += bytes;
    if (!tensor.name.empty()) out.tensors.push_back(std::move(tensor));
  }
  return out;
}

}  // namespace penstock
