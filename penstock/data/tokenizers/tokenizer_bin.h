// Reads the tokenizer.bin of llama2.c. The file has the longest piece's length, then score, length
// and text of each piece, without a count. Ids 0 to 2 are unknown, begin and end; 3 to 258 are the
// bytes.
#pragma once

#include <memory>
#include <string>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// The tokenizer merges by score and puts a space before the text, as llama2.c does. `name` stands
/// for the file in errors. Throws Error for a file that is truncated or has no byte pieces.
/// Source: github.com/karpathy/llama2.c, tokenizer.py and run.c.
std::shared_ptr<const Tokenizer> read_tokenizer_bin(const std::string& content,
                                                    const std::string& name);

}  // namespace penstock
