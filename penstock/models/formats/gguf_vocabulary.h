// Tokenizers read from GGUF metadata (`tokenizer.ggml.*`). gguf_tokenizer.h writes them.
#pragma once

#include "penstock/data/vocabulary.h"
#include "penstock/io/gguf.h"

namespace penstock {

/// The vocabulary of a file's keys.
/// Throws Error that names the file and the key if the tokenizer's kind is unknown or lists do not
/// fit each other.
Vocabulary read_gguf_vocabulary(const GgufFile& file);

}  // namespace penstock
