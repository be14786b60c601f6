// The common part of tokenizers that find some pieces literally in text before they encode the
// rest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/text/added_tokens.h"
#include "penstock/data/tokenizer.h"

namespace penstock {

class PieceTokenizer : public Tokenizer {
 public:
  using Tokenizer::decode;
  using Tokenizer::encode;
  void encode(std::string_view text, std::vector<TokenId>& ids) const override {
    encode_with(added_text_, text, ids);
  }
  void encode_with_controls(std::string_view text, std::vector<TokenId>& ids) const override {
    encode_with(added_, text, ids);
  }
  void decode(TokenId id, std::string& text) const override {
    check_id(id);
    text += texts_[static_cast<std::size_t>(id)];
  }

 protected:
  /// Tokens to find in the original text, and in normalised text.
  struct Added {
    AddedTokens raw, normalised;
  };

  virtual void encode_with(const Added& added, std::string_view text,
                           std::vector<TokenId>& ids) const = 0;
  /// Adds a token to find in text; a control token is found only by encode_with_controls().
  void seek(const AddedToken& token) {
    for (Added* added : {&added_, &added_text_})
      if (added == &added_ || !token.control)
        (token.normalized ? added->normalised : added->raw).add(token);
  }

  std::vector<std::string> texts_;  // [id], the text that decode() appends

 private:
  Added added_, added_text_;
};

}  // namespace penstock
