// The tokenizer.bin of llama2.c: the longest piece's length, then score, length and text of each
// piece, without a count; ids 0 to 2 are unknown, begin and end, 3 to 258 the bytes.
#pragma once

#include <memory>
#include <string>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// Merges by score as llama2.c does, a space before the text. `name` stands for the file in
/// errors. Throws Error for a file that is cut short or has no byte pieces.
/// Source: github.com/karpathy/llama2.c, tokenizer.py and run.c.
std::shared_ptr<const Tokenizer> read_tokenizer_bin(const std::string& content,
                                                    const std::string& name);

}  // namespace penstock
