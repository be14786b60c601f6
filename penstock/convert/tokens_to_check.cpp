// Tokens on which an export is measured.
#include <torch/torch.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/mapped_file.h"
#include "penstock/convert/export_model.h"
#include "penstock/data/corpus.h"

namespace penstock {
namespace {

constexpr std::int64_t kLongestCheck = 256;
constexpr std::uint64_t kMostTextBytes = 1 << 20;

// Any text will do; tokens of a language make the choices of experts that tokens of it make.
constexpr std::string_view kSentence =
    "Once upon a time there was a small village between the river and the hills. Every morning the "
    "baker lit his oven before the sun came up, and the smell of bread went down the street. A "
    "girl called Anna lived next door with her grandmother and an old grey cat. One day the cat "
    "did "
    "not come home, so Anna took a lantern and walked along the water to look for it. She asked "
    "the "
    "miller, the smith and two boys who were fishing from the bridge, but nobody had seen the cat. "
    "In the evening she heard a soft sound behind the mill. There sat the cat, and beside it were "
    "four kittens.\n";

std::vector<std::int64_t> from_corpus(const ExportOptions& options, const ModelConfig& config) {
  const Corpus corpus = Corpus::open(options.corpus);
  PENSTOCK_CHECK(corpus.vocab_size() <= config.vocab, options.corpus, ": has a vocabulary of ",
                 corpus.vocab_size(), ", the model ", config.vocab);
  TokenFile::Range range;
  for (const Split split : {Split::kValidation, Split::kTest, Split::kTrain})
    if (range.tokens == 0) range = corpus.file().range(split);
  std::vector<std::int64_t> out(
      static_cast<std::size_t>(std::min(range.tokens, options.check_tokens)));
  corpus.file().read(range.begin, out);
  return out;
}

std::vector<std::int64_t> from_text(std::string_view text, const Tokenizer& tokenizer) {
  const std::vector<TokenId> ids = tokenizer.encode(text);
  return {ids.begin(), ids.end()};
}

std::vector<std::int64_t> from_file(const std::string& path, const Tokenizer& tokenizer) {
  const MappedFile file(path);
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  text = text.substr(0, kMostTextBytes);
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80 &&
         text.size() == kMostTextBytes)
    text.remove_suffix(1);  // back to the start of a character
  return from_text(text, tokenizer);
}

std::vector<std::int64_t> drawn(const ModelConfig& config, std::int64_t count) {
  const at::Tensor ids = at::arange(count, at::kLong).mul_(2654435761).remainder_(config.vocab);
  return {ids.data_ptr<std::int64_t>(), ids.data_ptr<std::int64_t>() + count};
}

}  // namespace

at::Tensor tokens_to_check(const ExportOptions& options, const ModelConfig& config,
                           const Tokenizer* tokenizer, std::string& source) {
  std::vector<std::int64_t> ids;
  if (!options.corpus.empty()) {
    ids = from_corpus(options, config);
    source = options.corpus;
  } else if (tokenizer) {
    ids = options.text.empty() ? from_text(kSentence, *tokenizer)
                               : from_file(options.text, *tokenizer);
    source = options.text.empty() ? "a short story of our own" : options.text;
  } else {
    PENSTOCK_CHECK(options.text.empty(), "--text needs a tokenizer, and the model has none");
    ids = drawn(config, options.check_tokens);
    source = "token ids drawn evenly, as the model has no tokenizer";
  }
  ids.resize(std::min(ids.size(), static_cast<std::size_t>(options.check_tokens)));
  PENSTOCK_CHECK(!ids.empty(), source, ": no tokens to measure on");
  const std::int64_t context = config.context > 0 ? config.context : kLongestCheck;
  const std::int64_t length = std::min({kLongestCheck, context, std::ssize(ids)});
  const std::int64_t rows = std::ssize(ids) / length;
  return at::tensor(ids, at::kLong).slice(0, 0, rows * length).view({rows, length}).clone();
}

}  // namespace penstock
