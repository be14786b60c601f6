// Tokenizers in GGUF metadata (`tokenizer.ggml.*`), both ways.
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

/// The vocabulary that a file's keys describe. Throws Error, naming the file and the key, for a
/// kind that is not known and for lists that do not fit each other.
Vocabulary read_gguf_vocabulary(const GgufFile& file);

}  // namespace penstock
