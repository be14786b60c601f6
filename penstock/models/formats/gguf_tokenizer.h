// Tokenizers written as GGUF metadata (`tokenizer.ggml.*`). gguf_vocabulary.h reads them.
#pragma once

#include <string>
#include <vector>

#include "penstock/data/vocabulary.h"
#include "penstock/io/gguf.h"

namespace penstock {

/// A tokenizer as GGUF keys, such that llama.cpp cuts text as the tokenizer does, and what to know
/// of the cases where it does not, a sentence each without a full stop.
struct GgufTokenizer {
  GgufMetadata metadata;
  std::vector<std::string> notes;
};

/// kBytes: `gpt2` without merges, in which every byte is its own piece. kByteBpe: `gpt2` with
/// merges and `pre`. kSentencePieceBpe: `llama`. kSentencePieceUnigram: `t5`.
/// `vocab_size` is the model's: pieces that no text gives fill it up.
/// Throws Error where llama.cpp would cut ordinary text otherwise: a rule for words without a name
/// there, a vocabulary of characters without pieces for single bytes.
GgufTokenizer gguf_tokenizer(const Vocabulary& vocabulary, std::int64_t vocab_size);

/// Keys of a model without a tokenizer.
GgufTokenizer no_gguf_tokenizer(const std::string& architecture, std::int64_t vocab_size);

}  // namespace penstock
