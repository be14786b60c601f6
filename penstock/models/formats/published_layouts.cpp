#include "penstock/models/formats/published_layouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/models/counts/model_tensors.h"
#include "penstock/models/embedding_and_head_names.h"
#include "penstock/models/formats/architectures.h"

namespace penstock {
namespace {

using Shape = std::vector<std::int64_t>;

/// A stored tensor, and the part of it that holds one of our tensors.
struct TensorPlace {
  std::string stored;
  Shape whole;             ///< the shape of the stored tensor
  std::int64_t begin = 0;  ///< first element of the part, which has no gaps
};

/// The part that an expert's tensor has in a tensor of all experts.
struct FusedPart {
  std::string_view name, fused;
  bool half, second;  ///< whether an expert's rows hold two tensors; whether this is the second one
};
constexpr std::array<FusedPart, 3> kFusedParts = {
    {{"gate_proj.weight", "gate_up_proj", true, false},
     {"up_proj.weight", "gate_up_proj", true, true},
     {"down_proj.weight", "down_proj", false, false}}};

/// The place of "..experts.5.up_proj.weight" in a tensor of all experts, or none.
std::optional<TensorPlace> fused_place(const std::string& name, const Shape& shape,
                                       std::int64_t experts) {
  static const std::string kExperts = ".experts.";
  const auto at = name.find(kExperts);
  if (at == std::string::npos) return {};
  const std::string stem = name.substr(0, at + kExperts.size()), rest = name.substr(stem.size());
  const auto dot = rest.find('.');
  const auto* const part =
      std::ranges::find(kFusedParts, std::string_view(rest).substr(dot + 1), &FusedPart::name);
  if (part == kFusedParts.end()) return {};
  const std::int64_t expert = std::stoll(rest.substr(0, dot));
  const std::int64_t rows = shape[0] * (part->half ? 2 : 1), size = shape[0] * shape[1];
  return TensorPlace{stem + std::string(part->fused),
                     {experts, rows, shape[1]},
                     expert * rows * shape[1] + (part->second ? size : 0)};
}

/// Every place where a tensor with Penstock's name may be stored. Its own name is first and appears
/// once. The others are the names of every class, also mixed, and the places in tensors of all
/// experts.
std::vector<TensorPlace> places_of(const std::string& name, const Shape& shape,
                                   std::int64_t experts) {
  std::vector<TensorPlace> out = {{name, shape}};
  if (name.find(".mlp.") == std::string::npos || experts == 0) return out;
  if (auto fused = fused_place(name, shape, experts)) out.push_back(std::move(*fused));
  for (const Architecture& architecture : architectures())
    for (const auto& [ours, theirs] : architecture.hf.renamed)
      for (std::size_t i = 0, count = out.size(); i < count; ++i)
        if (const auto at = out[i].stored.find(ours); at != std::string::npos) {
          TensorPlace other = out[i];
          other.stored.replace(at, ours.size(), theirs);
          out.push_back(std::move(other));
        }
  return out;
}

bool is_float(Dtype dtype) {
  return dtype == Dtype::kF16 || dtype == Dtype::kBF16 || dtype == Dtype::kF32 ||
         dtype == Dtype::kF64;
}

void check_stored(const TensorView& view, const Shape& wanted, const std::string& origin) {
  Shape transposed = wanted;
  if (transposed.size() >= 2)
    std::swap(transposed[transposed.size() - 1], transposed[transposed.size() - 2]);
  PENSTOCK_CHECK(view.shape == wanted, origin, ": tensor '", view.name, "' has shape ",
                 fmt::format("{}", view.shape), ", the config asks for ", fmt::format("{}", wanted),
                 view.shape == transposed ? ": it is stored transposed" : "");
  PENSTOCK_CHECK(is_float(view.dtype), origin, ": tensor '", view.name, "' is of type ",
                 dtype_name(view.dtype), "; weights are F32, F16, BF16 or F64");
}

/// Checks that the files can hold the config's tensors before their names are made: a damaged
/// config may ask for any number of them.
void check_plausible(const ModelConfig& config, const SafetensorsModel& files,
                     const std::string& origin) {
  double elements = 0, asked = 0;  // floating point cannot overflow here
  for (const TensorView& view : files.tensors())
    elements += static_cast<double>(view.data.size() / dtype_bytes(view.dtype));
  for (const ModelTensor& tensor : backbone_tensors(config))
    asked += static_cast<double>(tensor.size()) *
             static_cast<double>(std::max<std::int64_t>(1, tensor.experts));
  PENSTOCK_CHECK(asked <= 2 * elements + 1e6, origin, ": holds ",
                 static_cast<std::int64_t>(elements),
                 " weights, and the config asks for more than twice as many");
}

/// The only place that the files have. Throws Error if they have none, or more than one.
TensorPlace found_place(const std::string& name, std::vector<TensorPlace> places,
                        const SafetensorsModel& files, const std::string& origin) {
  const std::string others =
      joined(std::span(places).subspan(1), ", ",
             [](const TensorPlace& place) { return "'" + place.stored + "'"; });
  std::erase_if(places, [&](const TensorPlace& place) { return !files.find(place.stored); });
  PENSTOCK_CHECK(!places.empty(), origin, ": tensor '", name, "' is missing",
                 others.empty() ? "" : ", also under ", others);
  PENSTOCK_CHECK(places.size() == 1, origin, ": tensors '", places.front().stored, "' and '",
                 places.back().stored, "' are the same part of the model");
  return places.front();
}

/// Whether a tensor outside of the config changes nothing.
bool harmless(const TensorView& view, const ModelConfig& config, const SafetensorsModel& files,
              const std::string& origin) {
  if (view.name.ends_with(".rotary_emb.inv_freq")) return true;
  if (view.name != kHeadTensor || !config.tie_embeddings) return false;
  const TensorView* const embeddings = files.find(kEmbeddingsTensor);
  PENSTOCK_CHECK(
      embeddings && view.dtype == embeddings->dtype &&
          std::ranges::equal(view.data, embeddings->data),
      origin, ": tensor '", kHeadTensor,
      "' differs from the embeddings, to which the config ties the head (tie_word_embeddings)");
  return true;
}

}  // namespace

std::map<std::string, TensorView> find_tensors(const ModelConfig& config,
                                               const SafetensorsModel& files,
                                               const std::string& ignored,
                                               const std::string& origin) {
  check_plausible(config, files, origin);
  std::map<std::string, TensorView> out;
  std::set<std::string> used;
  const std::int64_t experts = config.moe_layers() > 0 ? config.total_experts() : 0;
  for (const auto& [name, shape] : tensor_shapes(config)) {
    const TensorPlace place = found_place(name, places_of(name, shape, experts), files, origin);
    TensorView view = *files.find(place.stored);
    if (used.insert(place.stored).second) check_stored(view, place.whole, origin);
    const std::size_t width = dtype_bytes(view.dtype);
    std::size_t bytes = width;
    for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
    view.data = view.data.subspan(static_cast<std::size_t>(place.begin) * width, bytes);
    view.shape = shape;
    out.emplace(name, std::move(view));
  }
  for (const TensorView& view : files.tensors())
    PENSTOCK_CHECK(used.contains(view.name) ||
                       (!ignored.empty() && view.name.starts_with(ignored)) ||
                       harmless(view, config, files, origin),
                   origin, ": unknown tensor '", view.name, "'; ",
                   view.name.starts_with("classifier.")
                       ? "the model was fine-tuned to classify texts, and no longer predicts them"
                       : "the config describes no such part");
  return out;
}

}  // namespace penstock
