#include "penstock/finetune/pretrained.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "penstock/base/checksum.h"
#include "penstock/base/error.h"
#include "penstock/base/random.h"
#include "penstock/eval/passes.h"
#include "penstock/io/config_json.h"
#include "penstock/models/embedding_and_head_names.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/make_model.h"
#include "penstock/ops/initial_draws.h"
#include "penstock/routers/option_changes.h"

namespace penstock {
namespace {

// Streams of the seed.
constexpr std::uint64_t kHeadStream = 1, kEmbeddingStream = 4;

/// Reads the tensors of the body. The classifier of a fine-tuned folder is not part of the body.
TensorMap read_body(const ModelSource& source) {
  TensorMap out;
  for (const auto& name : source.names()) out[name] = finite_tensor(source, name);
  return out;
}

std::string hash_of(const TensorMap& tensors) {
  Xxh64 hash;
  for (const auto& [name, tensor] : tensors) {
    hash.update(std::as_bytes(std::span(name)));
    const at::Tensor flat = tensor.contiguous();
    hash.update({static_cast<const std::byte*>(flat.data_ptr()), flat.nbytes()});
  }
  return fmt::format("{:016x}", hash.value());
}

/// Replaces the tensors that depend on the vocabulary's size by newly initialised tensors.
void draw_vocabulary(const ModelConfig& config, std::uint64_t seed, TensorMap& tensors) {
  for (const char* name : {kEmbeddingsTensor, kHeadTensor})
    if (tensors.count(name)) {
      tensors[name] = torch::empty({config.vocab, config.d_model});
      InitialDraws(seed).normal(name, tensors[name], config.init_std);
    }
  if (tensors.count(kHeadBiasTensor)) tensors[kHeadBiasTensor] = torch::zeros({config.vocab});
  for (const char* name : {kClusterWeightTensor, kClusterBiasTensor}) tensors.erase(name);
}

void check_fits(const ModelConfig& config, const FinetuneConfig& finetune) {
  PENSTOCK_CHECK(config.has_memory() || (finetune.train_memory == 0 && finetune.eval_memory == 0),
                 "protocol \"authors\" carries memory from batch to batch, and a decoder has none; "
                 "set train_memory = 0 and eval_memory = 0 for the rest of that protocol");
  PENSTOCK_CHECK(finetune.train_memory == 0 || !reads_across_texts(config, /*training=*/true),
                 "train_memory: with carried memory each text is a pass of its own, and this "
                 "model's router decides over a batch; set train_memory = 0 and "
                 "eval_memory = 0");
  PENSTOCK_CHECK(finetune.eval_memory == 0 || !config.traits().merges,
                 "eval_memory: texts are filled up to this model's segments, and the memory would "
                 "carry the padding to the next text; set eval_memory = 0");
}

}  // namespace

PretrainedClassifier pretrained_classifier(const std::string& directory,
                                           const FinetuneConfig& finetune, std::int64_t classes,
                                           std::optional<std::int64_t> words) {
  const auto source = open_model_source(directory, "classifier.");
  ModelConfig config = source->config();
  check_fits(config, finetune);
  TensorMap tensors = read_body(*source);
  PretrainedClassifier out{.model_hash = hash_of(tensors)};
  out.k = training_k(config, finetune);
  if (*finetune.train_hypernetwork && generates_routers(config.router))
    train_network(config.router);
  const auto seed = static_cast<std::uint64_t>(finetune.seed);
  if (words) {
    config.vocab = *words;
    config.xl.cutoffs.clear();
    draw_vocabulary(config, random_bits(seed, kEmbeddingStream, 0), tensors);
  }
  auto body = make_model(config);
  load_file_tensors(*body, tensors, directory);
  out.classifier = std::make_shared<Classifier>(
      std::move(body),
      std::make_shared<ClassifierHead>(config.d_model, classes, finetune.dropout, finetune.init_std,
                                       random_bits(seed, kHeadStream, 0)));
  return out;
}

std::string classifier_config_json(const ModelConfig& config,
                                   const std::vector<std::string>& class_names) {
  auto json = nlohmann::ordered_json::parse(config_json_text(config));
  json["penstock"]["classifier"] = {{"class_names", class_names}};
  return json.dump(2) + "\n";
}

SavedClassifier load_classifier(const std::string& directory) {
  const ModelConfig config = read_model_config(directory);
  const std::string path = directory + "/config.json";
  const nlohmann::json json = read_json(path)["penstock"];
  PENSTOCK_CHECK(json.contains("classifier") && json["classifier"].is_object() &&
                     json["classifier"].contains("class_names") &&
                     json["classifier"]["class_names"].is_array(),
                 path, ": names no classes; give a folder that `penstock finetune` wrote");
  SavedClassifier out;
  for (const auto& name : json["classifier"]["class_names"]) {
    PENSTOCK_CHECK(name.is_string(), path, ": a class's name is no string");
    out.class_names.push_back(name.get<std::string>());
  }
  out.classifier = std::make_shared<Classifier>(
      make_model(config),
      std::make_shared<ClassifierHead>(config.d_model, std::ssize(out.class_names), 0.0, 0.0, 0));
  const std::string weights = directory + "/model.safetensors";
  out.classifier->load(load_tensors(weights), weights);
  out.classifier->eval();
  return out;
}

}  // namespace penstock
