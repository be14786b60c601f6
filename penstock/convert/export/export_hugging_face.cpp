#include "penstock/convert/export/export_hugging_face.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/convert/export/export_hugging_face_config.h"
#include "penstock/convert/export/own_class.h"
#include "penstock/data/tokenizers/hugging_face_files.h"
#include "penstock/data/vocabulary.h"
#include "penstock/io/safetensors_stream.h"
#include "penstock/models/files/chat_template.h"
#include "penstock/models/files/generation_files.h"

namespace penstock {
namespace {

/// A tensor of ours, with its name in the class.
struct Named {
  std::string ours, theirs;
  std::uint64_t bytes;
};
/// The tensors of one file.
using Shard = std::vector<Named>;

/// The tensors in the order of their names. A new shard begins before a shard would exceed
/// `shard_bytes`.
std::vector<Shard> cut_into_shards(const ModelSource& portable, const ExportTarget& target,
                                   ExportDtype dtype, std::uint64_t shard_bytes) {
  std::vector<Shard> out(1);
  std::uint64_t bytes = 0;
  for (const std::string& name : portable.names()) {
    std::uint64_t own = dtype_bytes(safetensors_dtype(dtype));
    for (const std::int64_t size : portable.shape(name)) own *= static_cast<std::uint64_t>(size);
    if (bytes > 0 && bytes + own > shard_bytes) {
      out.emplace_back();
      bytes = 0;
    }
    bytes += own;
    out.back().push_back({name, hugging_face_name(*target.architecture, name), own});
  }
  return out;
}

std::string shard_name(std::size_t index, std::size_t count) {
  return count == 1 ? "model.safetensors"
                    : fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

std::string index_text(const std::vector<Shard>& shards) {
  std::uint64_t bytes = 0;
  auto places = nlohmann::json::object();
  for (std::size_t i = 0; i < shards.size(); ++i)
    for (const Named& tensor : shards[i]) {
      bytes += tensor.bytes;
      places[tensor.theirs] = shard_name(i, shards.size());
    }
  const nlohmann::json out = {{"metadata", {{"total_size", bytes}}}, {"weight_map", places}};
  return out.dump(2) + "\n";
}

/// Writes one file. Sets `rounded` if the file stores a number inexactly.
void write_shard(OutputFile& file, const Shard& shard, const ModelSource& portable,
                 ExportDtype dtype, bool& rounded) {
  std::vector<StreamedTensor> tensors;
  for (const Named& tensor : shard)
    tensors.push_back({.name = tensor.theirs,
                       .dtype = safetensors_dtype(dtype),
                       .shape = portable.shape(tensor.ours),
                       .write = [&](OutputFile& out) {
                         const ExportedNumbers numbers(portable.tensor(tensor.ours), dtype,
                                                       tensor.theirs);
                         rounded |= numbers.rounded();
                         out.write(numbers.bytes());
                       }});
  write_safetensors_stream(file, std::move(tensors), {{"format", "pt"}});
  file.close();
}

/// The ids of special tokens: the tokenizer's, or those that the model's folder names.
SpecialIds ids_to_write(const Tokenizer* tokenizer, const ModelSource& portable) {
  if (!tokenizer) return special_ids(portable.origin(), portable.config().vocab);
  const auto vocabulary = tokenizer->vocabulary();
  const auto id = [](TokenId value) {
    return value >= 0 ? std::vector<TokenId>{value} : std::vector<TokenId>{};
  };
  return {id(vocabulary ? vocabulary->bos : -1), id(tokenizer->end_of_document()),
          id(vocabulary ? vocabulary->padding : -1)};
}

}  // namespace

Exported export_hugging_face(FileSystem& fs, const ModelSource& portable,
                             const ExportTarget& target, ExportDtype dtype,
                             std::uint64_t shard_bytes, const Tokenizer* tokenizer,
                             const std::filesystem::path& path) {
  PENSTOCK_CHECK(
      !is_quantised(ggml_dtype(dtype)), "options.dtype ", word(dtype),
      ": Hugging Face's files have no such type; take f32, f16 or bf16, or write a GGUF file");
  Exported out{.dtype = dtype};
  const SpecialIds ids = ids_to_write(tokenizer, portable);
  AtomicDirectory directory(fs, path);
  if (is_own_class(target)) {
    directory.write("config.json", own_class_config_text(target, dtype, ids));
    directory.write("configuration_penstock.py", std::string(own_class::configuration));
    directory.write("modeling_penstock.py", std::string(own_class::modeling));
  } else {
    directory.write("config.json", hugging_face_config_text(target, dtype, ids));
  }
  const auto shards = cut_into_shards(portable, target, dtype, shard_bytes);
  for (std::size_t i = 0; i < shards.size(); ++i)
    write_shard(*directory.create(shard_name(i, shards.size())), shards[i], portable, dtype,
                out.rounded);
  if (shards.size() > 1) directory.write("model.safetensors.index.json", index_text(shards));
  if (tokenizer) {
    auto files = hugging_face_files(*tokenizer);
    files.merge(chat_template_files(chat_template_of(portable.origin()), files));
    for (const auto& [name, text] : files) directory.write(name, text);
  }
  for (const auto& [name, text] : generation_files(portable.origin(), portable.config().vocab))
    directory.write(name, text);
  directory.commit();
  return out;
}

}  // namespace penstock
