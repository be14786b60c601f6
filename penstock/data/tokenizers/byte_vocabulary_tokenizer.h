// A vocabulary of the bytes that occur in a text, as in published code for enwik8: V = 205, or 204
// without newlines.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// One id for each byte that occurs in `texts`, the most frequent first, ties in the order of their
/// first occurrence. Without `newlines` the newline has no id: encoding leaves it out, so decoding
/// does not restore it and bits per byte does not count it. (Code that reads enwik8 line by line,
/// each byte as a word, loses newlines in this way.) No end of document; encode() throws
/// Error for a byte without an id.
std::shared_ptr<const Tokenizer> train_byte_vocabulary(std::span<const std::string_view> texts,
                                                       bool newlines);

/// Makes the tokenizer from a vocabulary of the kind kBytes without control pieces.
std::shared_ptr<const Tokenizer> make_byte_vocabulary(const Vocabulary& vocabulary);

/// Loads a tokenizer.json: a byte-level BPE without merges, and a normaliser that removes newlines
/// if they have no id. `name` stands for the file in errors.
std::shared_ptr<const Tokenizer> load_byte_vocabulary(const nlohmann::json& json,
                                                      const std::string& name);

}  // namespace penstock
