// Chooses the tokens on which an export is measured.
#include <torch/types.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/convert/export/export_model.h"
#include "penstock/convert/sample_windows.h"
#include "penstock/data/tokenizer.h"

namespace penstock {
namespace {

constexpr std::int64_t kLongestCheck = 256;

// Any text would do. Tokens of a language choose experts as the language's other texts do.
constexpr std::string_view kSentence =
    "Once upon a time there was a small village between the river and the hills. Every morning the "
    "baker lit his oven before the sun came up, and the smell of bread went down the street. A "
    "girl called Anna lived next door with her grandmother and an old grey cat. One day the cat "
    "did not come home, so Anna took a lantern and walked along the water to look for it. She "
    "asked the miller, the smith and two boys who were fishing from the bridge, but nobody had "
    "seen the cat. In the evening she heard a soft sound behind the mill. There sat the cat, and "
    "beside it were four kittens.\n";

std::vector<std::int64_t> drawn(const ModelConfig& config, std::int64_t count) {
  const at::Tensor ids = at::arange(count, at::kLong).mul_(2654435761).remainder_(config.vocab);
  return {ids.data_ptr<std::int64_t>(), ids.data_ptr<std::int64_t>() + count};
}

/// The ids of the built-in sentence; none if the tokenizer has no tokens for it, as one of words or
/// of some bytes may.
std::vector<TokenId> sentence_ids(const Tokenizer& tokenizer) {
  try {
    return tokenizer.encode(kSentence);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

at::Tensor tokens_to_check(const ExportOptions& options, const ModelSource& source,
                           const Tokenizer* tokenizer, std::string& what) {
  const ModelConfig& config = source.config();
  const std::int64_t longest = std::min(
      {kLongestCheck, options.check_tokens, config.context > 0 ? config.context : kLongestCheck});
  if (!options.sample.empty()) {
    what = options.sample;
    return sample_windows(options.sample, source,
                          {.tokens = options.check_tokens, .length = longest});
  }
  const std::vector<TokenId> encoded =
      tokenizer ? sentence_ids(*tokenizer) : std::vector<TokenId>();
  std::vector<std::int64_t> ids(encoded.begin(), encoded.end());
  what = "a short story of our own";
  if (ids.empty()) {
    ids = drawn(config, options.check_tokens);
    what = concat("token ids drawn evenly, as the model has no tokenizer",
                  tokenizer ? " with tokens for a story" : "");
  }
  const std::int64_t count = std::min(std::ssize(ids), options.check_tokens);
  const std::int64_t length = std::min(longest, count), rows = count / length;
  return at::tensor(ids, at::kLong).slice(0, 0, rows * length).view({rows, length}).clone();
}

}  // namespace penstock
