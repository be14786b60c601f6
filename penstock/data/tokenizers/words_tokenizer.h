// Words between white space and an end for each line, as language models on WikiText count them.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// The word that stands for words outside the vocabulary, if the text itself contains it.
inline constexpr std::string_view kUnknownWord = "<unk>";
/// The id that ends each line, 0.
inline constexpr std::string_view kEndOfLine = "<eos>";

/// `<eos>`, then every word of `texts`, the most frequent first, ties in the order of their first
/// occurrence; case is kept. White space is what Python's str.split takes for it. encode() ends
/// every line with `<eos>`, also a last one without newline; a word without an id becomes `<unk>`
/// where the vocabulary has that, and throws Error elsewhere, as it does for a literal `<eos>`.
/// decode() gives WikiText's own layout, in which a space stands before each word and before the
/// newline, so text in that layout comes back byte for byte (but for unknown words), and bits per
/// byte is over its bytes. No end of document.
std::shared_ptr<const Tokenizer> train_words(std::span<const std::string_view> texts);

/// From a tokenizer.json with a WordLevel model. `name` stands for the file in errors.
std::shared_ptr<const Tokenizer> load_words(const nlohmann::json& json, const std::string& name);

}  // namespace penstock
