#include "penstock/finetune/model_encoder.h"

#include <filesystem>

#include "penstock/base/error.h"
#include "penstock/data/tokenizers/from_files.h"
#include "penstock/finetune/word_encoding.h"

namespace penstock {
namespace {

/// The number of bytes of the UTF-8 character that begins with `lead`; 1 if `lead` begins none.
std::size_t character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
}

std::vector<TokenId> border_of(const Tokenizer& tokenizer) {
  if (tokenizer.end_of_document() >= 0) return {tokenizer.end_of_document()};
  for (const char* text : {"\n", " "}) {
    try {
      const auto ids = tokenizer.encode(text);
      if (!ids.empty()) return {ids.back()};
    } catch (const Error&) {  // the vocabulary does not have this text
    }
  }
  fail("the model's tokenizer (", tokenizer.spec(),
       ") has neither an id that ends documents nor a line break nor a space: nothing can stand "
       "for an empty text; fine-tune a model whose corpus has one of them");
}

class TokenizerEncoder : public TextEncoder {
 public:
  explicit TokenizerEncoder(std::shared_ptr<const Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)), border_(border_of(*tokenizer_).front()) {}

  std::int64_t vocab_size() const override { return tokenizer_->vocab_size(); }
  std::map<std::string, std::string> files() const override { return tokenizer_->files(); }

  std::vector<std::int64_t> encode(std::string_view text, std::int64_t most,
                                   EncodedSet& totals) const override {
    std::vector<TokenId> ids;
    try {
      tokenizer_->encode(text, ids);
    } catch (const Error&) {
      ids.clear();
      std::string kept;
      for (std::size_t i = 0; i < text.size();) {
        const auto character = text.substr(i, character_bytes(text[i]));
        if (representable(character))
          kept += character;
        else
          ++totals.left_out;
        i += character.size();
      }
      tokenizer_->encode(kept, ids);
    }
    const auto room = static_cast<std::size_t>(most - 2);
    if (ids.size() > room) {
      ids.resize(room);
      ++totals.truncated;
    }
    std::vector<std::int64_t> out = {border_};
    out.insert(out.end(), ids.begin(), ids.end());
    out.push_back(border_);
    return out;
  }

 private:
  bool representable(std::string_view character) const {
    try {
      tokenizer_->encode(character);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  TokenId border_;
};

}  // namespace

std::shared_ptr<const TextEncoder> tokenizer_encoder(std::shared_ptr<const Tokenizer> tokenizer) {
  return std::make_shared<TokenizerEncoder>(std::move(tokenizer));
}

std::shared_ptr<const TextEncoder> load_text_encoder(const std::string& directory) {
  if (std::filesystem::exists(directory + "/" + kWordsFile)) return load_word_encoder(directory);
  return tokenizer_encoder(load_tokenizer(directory));
}

}  // namespace penstock
