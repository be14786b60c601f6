// Tokenizers written as GGUF metadata (`tokenizer.ggml.*`). gguf_vocabulary.h reads them.
#pragma once

#include <string>
#include <vector>

#include "penstock/data/vocabulary.h"
#include "penstock/io/gguf.h"

namespace penstock {

/// A tokenizer as GGUF keys with which llama.cpp cuts text as the tokenizer does. The notes list
/// the cases where llama.cpp does not, a sentence each without a full stop.
struct GgufTokenizer {
  GgufMetadata metadata;
  std::vector<std::string> notes;
};

/// The keys of a vocabulary. The kinds become these models:
///   kBytes: `gpt2` without merges, in which every byte is its own piece
///   kByteBpe: `gpt2` with merges and `pre`
///   kSentencePieceBpe: `llama`
///   kSentencePieceUnigram: `t5`
/// @param vocab_size  the model's; pieces that no text gives fill the vocabulary up to it
/// Throws Error if llama.cpp would cut ordinary text differently: its rule for words has no name in
/// llama.cpp, or a vocabulary of characters has no pieces for single bytes.
GgufTokenizer gguf_tokenizer(const Vocabulary& vocabulary, std::int64_t vocab_size);

/// The keys of a model without a tokenizer.
GgufTokenizer no_gguf_tokenizer(const std::string& architecture, std::int64_t vocab_size);

}  // namespace penstock
