// Reads the tokenizer.json of the Hugging Face tokenizers library (byte-pair encodings, and Unigram
// models as Penstock writes them), and the older pair vocab.json and merges.txt. An error names
// each feature that is not implemented.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// @param files  content by file name: tokenizer.json and, if there is one, tokenizer_config.json,
/// which names the pieces that begin and end a document. Without it, the added token "</s>",
/// "<|endoftext|>", "<|end_of_text|>" or "<eos>" ends a document.
/// @param name  stands for the file in errors
/// Throws Error for a damaged file and for a feature that is not implemented.
std::shared_ptr<const Tokenizer> read_tokenizer_json(
    const std::map<std::string, std::string>& files, const std::string& name);

/// @param files  vocab.json, merges.txt and, if there is one, tokenizer_config.json. Its
/// tokenizer_class decides how text is cut: GPT2Tokenizer (the default) or Qwen2Tokenizer.
std::shared_ptr<const Tokenizer> read_vocab_and_merges(
    const std::map<std::string, std::string>& files, const std::string& name);

}  // namespace penstock
