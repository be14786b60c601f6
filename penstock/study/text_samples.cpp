#include "penstock/study/text_samples.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/data/batches.h"
#include "penstock/infer/generate.h"
#include "penstock/infer/text_stream.h"
#include "penstock/io/json_text.h"
#include "penstock/io/toml.h"
#include "penstock/models/model_directory.h"
#include "penstock/ops/dispatch.h"
#include "penstock/study/json_field.h"
#include "penstock/study/measure_run.h"
#include "penstock/train/recipe.h"

namespace penstock::study {
namespace {

constexpr std::int64_t kSamples = 2, kPromptTokens = 64, kNewTokens = 96;

std::string samples_path(const std::string& run_directory) {
  return (std::filesystem::path(run_directory) / "samples.json").string();
}

/// Tokens as text, with U+FFFD for bytes of characters that the window cuts.
std::string text_of(std::span<const TokenId> tokens, const Tokenizer& tokenizer) {
  TextStream stream;
  const std::string begun = stream.push(tokenizer.decode(tokens));
  return begun + stream.finish();
}

std::vector<std::vector<TokenId>> held_out_passages(const Corpus& corpus, Split split,
                                                    std::int64_t length) {
  const EvaluationWindows windows(
      corpus, split,
      {.sequence_length = length, .batch_sequences = 1, .max_tokens = kSamples * length});
  std::vector<std::vector<TokenId>> out;
  for (std::int64_t i = 0; i < std::min(kSamples, windows.batches()); ++i) {
    const auto inputs = windows.batch(i).inputs;
    out.emplace_back(inputs.begin(), inputs.end());
  }
  return out;
}

}  // namespace

nlohmann::json to_json(const TextSamples& samples) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& sample : samples.samples)
    list.push_back({{"prompt", sample.prompt}, {"text", sample.text}});
  return {{"split", samples.split}, {"refused", samples.refused}, {"samples", list}};
}

TextSamples text_samples_from_json(const nlohmann::json& object, const std::string& where) {
  PENSTOCK_CHECK(object.is_object() && object.contains("samples") && object["samples"].is_array(),
                 where, ": the list 'samples' is missing");
  TextSamples out{.split = string_or(object, "split", "", where),
                  .refused = string_or(object, "refused", "", where)};
  for (const auto& sample : object["samples"]) {
    PENSTOCK_CHECK(sample.is_object(), where, ": a sample is not an object");
    out.samples.push_back({.prompt = string_or(sample, "prompt", "", where),
                           .text = string_or(sample, "text", "", where)});
  }
  return out;
}

void write_text_samples(const std::string& run_directory) {
  const Recipe recipe =
      read_recipe(read_toml((std::filesystem::path(run_directory) / "config.toml").string()));
  ops::set_threads(static_cast<int>(recipe.run.threads));
  const CheckpointInfo info = find_checkpoint(run_directory, "final");
  const Corpus corpus = Corpus::open(recipe.data.corpus);
  const Split split = measured_split(corpus);
  TextSamples out{.split = std::string(split_name(split))};
  auto model = load_model(info.directory.string());
  if (!model->config().causal()) {
    out.refused = kNotCausal;
  } else if (corpus.count(split).tokens > 1) {
    // Half the length that the model was trained with, or can read, is left to what it writes.
    std::int64_t reach = recipe.train.sequence_length;
    if (const std::int64_t context = model->config().context; context > 0)
      reach = std::min(reach, context);
    const std::int64_t length = std::clamp<std::int64_t>(reach / 2, 1, kPromptTokens);
    const auto passages = held_out_passages(corpus, split, length);
    const Generation generation = generate_from_tokens(
        std::move(model), corpus.tokenizer(), passages,
        {.max_tokens = kNewTokens,
         .sampling = {.temperature = 0.8, .seed = static_cast<std::uint64_t>(recipe.train.seed)}});
    for (const Completion& one : generation.completions)
      out.samples.push_back(
          {.prompt = text_of(passages[one.prompt], corpus.tokenizer()), .text = one.text});
  }
  write_file_atomically(real_file_system(), samples_path(run_directory),
                        readable_text(to_json(out)));
}

std::optional<TextSamples> read_text_samples(const std::string& run_directory) {
  const std::string path = samples_path(run_directory);
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  const nlohmann::json object = nlohmann::json::parse(in, nullptr, false);
  PENSTOCK_CHECK(object.is_object(), path, ": is not a JSON object; remove it to measure again");
  return text_samples_from_json(object, path);
}

}  // namespace penstock::study
