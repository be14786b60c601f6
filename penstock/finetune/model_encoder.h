// Encodes texts as token ids for a model: by its tokenizer, or by the word vocabulary in its
// folder.
#pragma once

#include <memory>
#include <string>

#include "penstock/data/tokenizer.h"
#include "penstock/finetune/texts.h"

namespace penstock {

/// Encodes a text as a border, the text's ids, and a border. The border is the id that ends
/// documents or, if there is none, the id of a line break or else of a space. A text that is too
/// long loses its end, not its border. Characters that the tokenizer cannot represent are left out.
/// Throws Error if the tokenizer has no id for a border.
std::shared_ptr<const TextEncoder> tokenizer_encoder(std::shared_ptr<const Tokenizer> tokenizer);

/// The encoder whose files are in a directory: words.json if there is one, else a tokenizer's
/// files.
std::shared_ptr<const TextEncoder> load_text_encoder(const std::string& directory);

}  // namespace penstock
