// A tokenizer of words: one token for each word and one for each end of a line, as in language
// models on WikiText.
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

/// Makes the vocabulary: `<eos>`, then every word of `texts`, the most frequent first, ties in the
/// order of their first occurrence; case is kept. Words are separated by white space as in Python's
/// str.split. encode() ends every line with `<eos>`, even a last line without newline. A word
/// without an id becomes `<unk>`, or is an Error if the vocabulary has no `<unk>`; a literal
/// `<eos>` is an Error. decode() gives WikiText's layout, with a space before each word and before
/// the newline. Text in this layout decodes unchanged (except unknown words), and its bytes count
/// for bits per byte. No id ends a document.
std::shared_ptr<const Tokenizer> train_words(std::span<const std::string_view> texts);

/// Loads a tokenizer.json with a WordLevel model. `name` stands for the file in errors.
std::shared_ptr<const Tokenizer> load_words(const nlohmann::json& json, const std::string& name);

}  // namespace penstock
