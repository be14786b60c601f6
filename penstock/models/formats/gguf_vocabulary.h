// Tokenizers read from GGUF metadata (`tokenizer.ggml.*`). gguf_tokenizer.h writes them.
#pragma once

#include "penstock/data/vocabulary.h"
#include "penstock/io/gguf.h"

namespace penstock {

/// The vocabulary that a file's keys describe. Throws Error, naming the file and the key, for a
/// kind that is not known and for lists that do not fit each other.
Vocabulary read_gguf_vocabulary(const GgufFile& file);

}  // namespace penstock
