#include "penstock/models/formats/gguf_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <functional>
#include <set>

#include "penstock/base/error.h"
#include "penstock/base/mapped_file.h"
#include "penstock/data/tokenizers/from_vocabulary.h"
#include "penstock/io/safetensors.h"
#include "penstock/models/formats/gguf_config.h"
#include "penstock/models/formats/gguf_layout.h"
#include "penstock/models/formats/gguf_vocabulary.h"
#include "penstock/models/formats/torch_safetensors.h"

namespace penstock {
namespace {

/// The format's type as a safetensors type. REQUIRES: the type is not quantised.
Dtype gguf_dtype(GgmlType type) {
  if (type == GgmlType::kF16) return Dtype::kF16;
  return type == GgmlType::kBF16 ? Dtype::kBF16 : Dtype::kF32;
}

/// The type in which products read rows; nothing if products cannot read them.
std::optional<ops::RowType> row_type(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
      return ops::RowType::f32;
    case GgmlType::kF16:
      return ops::RowType::f16;
    case GgmlType::kBF16:
      return ops::RowType::bf16;
    case GgmlType::kQ8_0:
      return ops::RowType::q8_0;
    case GgmlType::kQ4_0:
      return ops::RowType::q4_0;
    case GgmlType::kQ4_1:
      return ops::RowType::q4_1;
    case GgmlType::kQ5_0:
      return ops::RowType::q5_0;
    case GgmlType::kQ5_1:
      return ops::RowType::q5_1;
    case GgmlType::kQ4_K:
      return ops::RowType::q4_k;
    case GgmlType::kQ5_K:
      return ops::RowType::q5_k;
    case GgmlType::kQ6_K:
      return ops::RowType::q6_k;
    default:
      return {};
  }
}

/// The shape without axes of size 1, for files differ in them.
std::vector<std::int64_t> squeezed(std::vector<std::int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

/// Throws Error unless the file has the tensor in the config's shape. A stacked tensor must have
/// all experts.
void check_in_file(const GgufFile& file, const std::string& name, const GgufPlace& place,
                   std::vector<std::int64_t> wanted, std::int64_t experts) {
  const GgufTensor* const tensor = file.find(place.tensor);
  PENSTOCK_CHECK(tensor, file.origin(), ": tensor '", place.tensor, "' is missing (", name, ")");
  if (place.expert >= 0) wanted.insert(wanted.begin(), experts);
  PENSTOCK_CHECK(squeezed(tensor->shape) == squeezed(wanted), file.origin(), ": tensor '",
                 place.tensor, "' has shape ", fmt::format("{}", tensor->shape),
                 ", the keys ask for ", fmt::format("{}", wanted));
}

}  // namespace

bool is_gguf(const std::string& path) { return path.ends_with(".gguf"); }

GgufSource::GgufSource(const std::string& path)
    : GgufSource(std::make_shared<const GgufFile>(path)) {}

GgufSource::GgufSource(std::shared_ptr<const GgufFile> file)
    : ConfigShapedSource(read_gguf_config(*file), file->origin()), file_(std::move(file)) {
  std::set<std::string, std::less<>> used;
  for (const auto& [name, wanted] : shapes()) {
    const GgufPlace place = gguf_place(name);
    PENSTOCK_ASSERT(!place.tensor.empty(), name, " has no place in the format");
    check_in_file(*file_, name, place, wanted, config().total_experts());
    used.insert(place.tensor);
  }
  for (const GgufTensor& tensor : file_->tensors())
    PENSTOCK_CHECK(used.contains(tensor.name), origin(), ": unknown tensor '", tensor.name,
                   "'; the keys describe no such part");
}

std::pair<const GgufTensor*, std::span<const std::byte>> GgufSource::place_of(
    const std::string& name) const {
  const GgufPlace place = gguf_place(name);
  const GgufTensor& stored = *file_->find(place.tensor);
  std::span<const std::byte> data = stored.data;
  if (place.expert >= 0) {  // an expert has whole rows, so it has whole blocks
    const auto experts = static_cast<std::size_t>(config().total_experts());
    const std::size_t bytes = data.size() / experts;
    data = data.subspan(static_cast<std::size_t>(place.expert) * bytes, bytes);
  }
  return {&stored, data};
}

at::Tensor GgufSource::tensor(const std::string& name) const {
  const std::vector<std::int64_t> wanted = shape(name);
  const auto [found, data] = place_of(name);
  const GgufTensor& stored = *found;
  at::Tensor out;
  if (!is_quantised(stored.type)) {
    out =
        to_tensor({.name = name, .dtype = gguf_dtype(stored.type), .shape = wanted, .data = data});
  } else {
    out = at::empty(wanted, at::kFloat);
    dequantise(stored.type, data, {out.data_ptr<float>(), static_cast<std::size_t>(out.numel())});
  }
  release_pages(data);
  return out;
}

std::optional<ops::StoredRows> GgufSource::stored(const std::string& name) const {
  const std::vector<std::int64_t> wanted = shape(name);
  const auto [found, data] = place_of(name);
  const std::optional<ops::RowType> type = row_type(found->type);
  // A file may lack an axis of size 1. Its rows then hold other numbers than the tensor's rows.
  if (!type || wanted.size() != 2 || found->shape.back() != wanted.back()) return {};
  return ops::StoredRows{.type = *type, .rows = wanted[0], .data = data.data()};
}

std::string GgufSource::stored_name(const std::string& name) const {
  return place_of(name).first->name;
}

std::shared_ptr<const Tokenizer> GgufSource::tokenizer() const {
  const GgufValue* const model = file_->value("tokenizer.ggml.model");
  PENSTOCK_CHECK(model && !(model->as_string() &&
                            (*model->as_string() == "none" || *model->as_string() == "no_vocab")),
                 origin(), ": the file has no tokenizer");
  const Vocabulary vocabulary = read_gguf_vocabulary(*file_);
  PENSTOCK_CHECK(std::ssize(vocabulary.pieces) <= config().vocab, origin(),
                 ": key 'tokenizer.ggml.tokens' has ", vocabulary.pieces.size(),
                 " pieces, and 'token_embd.weight' rows for ", config().vocab,
                 ": the tokenizer is not this model's");
  return make_tokenizer(vocabulary);
}

}  // namespace penstock
