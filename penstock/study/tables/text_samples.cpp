#include "penstock/study/tables/text_samples.h"

#include <algorithm>
#include <filesystem>

#include "penstock/data/corpus/batches.h"
#include "penstock/infer/generate.h"
#include "penstock/infer/text_stream.h"
#include "penstock/io/toml.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/generation_check.h"
#include "penstock/study/runs/opened_checkpoint.h"
#include "penstock/study/runs/run_folder.h"
#include "penstock/train/recipe.h"

namespace penstock::study {
namespace {

constexpr const char* kSamplesFile = "samples.json";
constexpr std::int64_t kSamples = 2, kPromptTokens = 64, kNewTokens = 96;

/// The tokens' text, with U+FFFD for the bytes of characters that the window cuts.
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

void write_text_samples(const std::string& run_directory) {
  const auto opened =
      open_checkpoint(read_toml((std::filesystem::path(run_directory) / "config.toml").string()),
                      run_directory, RunCheckpoint::final);
  const Recipe& recipe = opened.recipe;
  const Corpus& corpus = opened.corpus;
  TextSamples out{.split = opened.split_text()};
  auto model = load_model(opened.info.directory.string());
  if (!model->config().causal()) {
    out.refused = kNeedsLaterTokens;
  } else if (corpus.count(opened.split).tokens > 1) {
    // The prompt has at most half the length that the model was trained with or can read. The other
    // half is left for the generated text.
    std::int64_t reach = recipe.train.sequence_length;
    if (const std::int64_t context = model->config().context; context > 0)
      reach = std::min(reach, context);
    const std::int64_t length = std::clamp<std::int64_t>(reach / 2, 1, kPromptTokens);
    const auto passages = held_out_passages(corpus, opened.split, length);
    const Generation generation = generate_from_tokens(
        std::move(model), corpus.tokenizer(), passages,
        {.max_tokens = kNewTokens,
         .sampling = {.temperature = 0.8, .seed = static_cast<std::uint64_t>(recipe.train.seed)}});
    for (const Completion& one : generation.completions)
      out.samples.push_back(
          {.prompt = text_of(passages[one.prompt], corpus.tokenizer()), .text = one.text});
  }
  write_kept_object(write_json(out), run_directory, kSamplesFile);
}

std::optional<TextSamples> read_text_samples(const std::string& run_directory) {
  const auto object = read_kept_object(run_directory, kSamplesFile);
  if (!object) return std::nullopt;
  return read_json<TextSamples>(*object, run_directory + "/" + kSamplesFile);
}

}  // namespace penstock::study
