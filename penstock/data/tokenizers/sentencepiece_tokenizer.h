// BPE and unigram tokenizers through the SentencePiece library: those trained here, set up so that
// nothing is lost (no normalisation, no prefix space, all white space kept, unknown characters as
// bytes), and models from elsewhere.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// 3 control entries and 256 bytes leave no room below.
inline constexpr std::int64_t kMinPieces = 260;
inline constexpr std::int64_t kMaxPieces = 1 << 20;

/// @param kind  "bpe" or "unigram"
/// Source: Kudo and Richardson (2018), arXiv:1808.06226.
std::shared_ptr<const Tokenizer> train_sentencepiece_tokenizer(
    const std::string& kind, std::int64_t vocab_size, std::span<const std::string_view> texts);

/// From the content of a tokenizer.model; `name` stands for the file in errors, `beside` are files
/// that belong to it. One that adds or changes white space is taken as the library takes it: what
/// it changes does not come back, and U+2581 comes back as a space.
std::shared_ptr<const Tokenizer> load_sentencepiece_tokenizer(
    const std::string& content, const std::string& name,
    const std::map<std::string, std::string>& beside = {});

}  // namespace penstock
