// BPE and unigram tokenizers through the SentencePiece library: models from other programs, and
// models trained here, which are lossless (no normalisation, no prefix space, all white space kept,
// unknown characters as bytes).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// The smallest vocabulary: 3 control pieces, 256 bytes and one more piece.
inline constexpr std::int64_t kMinPieces = 260;
inline constexpr std::int64_t kMaxPieces = 1 << 20;

/// Trains a tokenizer.  @param kind  "bpe" or "unigram"
/// Source: Kudo and Richardson (2018), arXiv:1808.06226.
std::shared_ptr<const Tokenizer> train_sentencepiece_tokenizer(
    const std::string& kind, std::int64_t vocab_size, std::span<const std::string_view> texts);

/// Loads the content of a tokenizer.model; `name` stands for the file in errors, `beside` are files
/// that belong to it. If the model adds or changes white space, the library applies this as usual:
/// decoding does not undo it, and U+2581 decodes to a space.
std::shared_ptr<const Tokenizer> load_sentencepiece_tokenizer(
    const std::string& content, const std::string& name,
    const std::map<std::string, std::string>& beside = {});

}  // namespace penstock
