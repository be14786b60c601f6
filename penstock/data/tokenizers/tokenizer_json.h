// Reading the tokenizer.json of the Hugging Face tokenizers library (byte-pair encodings,
// and Unigram models as Penstock writes them), and the older pair vocab.json and merges.txt. What
// is not implemented is refused by name.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// `files`: the content of tokenizer.json by that name, and of tokenizer_config.json where there is
/// one, which says which pieces begin and end a document. Without it "</s>", "<|endoftext|>",
/// "<|end_of_text|>" or "<eos>" ends one, where it is an added token. `name` stands for the file in
/// errors. Throws Error for a damaged file and for what is not implemented.
std::shared_ptr<const Tokenizer> read_tokenizer_json(
    const std::map<std::string, std::string>& files, const std::string& name);

/// `files`: vocab.json, merges.txt, and tokenizer_config.json where there is one, whose
/// tokenizer_class says how text is cut: GPT2Tokenizer (also without such a file) or
/// Qwen2Tokenizer.
std::shared_ptr<const Tokenizer> read_vocab_and_merges(
    const std::map<std::string, std::string>& files, const std::string& name);

}  // namespace penstock
