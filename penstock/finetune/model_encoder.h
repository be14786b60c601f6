// Encodes texts as token ids as a model requires: by its tokenizer, or by the words beside it.
#pragma once

#include <memory>
#include <string>

#include "penstock/data/tokenizer.h"
#include "penstock/finetune/texts.h"

namespace penstock {

/// A border, the text's ids, a border. The border is the id that ends documents; where the corpus
/// had none, a line break or else a space. A text that is too long loses its end, not its border.
/// Characters that the tokenizer cannot represent are left out.
/// Throws Error where the tokenizer has nothing that could be a border.
std::shared_ptr<const TextEncoder> tokenizer_encoder(std::shared_ptr<const Tokenizer> tokenizer);

/// The encoder whose files are in a directory: words.json where there is one, or a tokenizer's.
std::shared_ptr<const TextEncoder> load_text_encoder(const std::string& directory);

}  // namespace penstock
