// Where the authors' vocabulary of words lies beside a model.
#pragma once

#include <memory>
#include <string>

#include "penstock/finetune/texts.h"

namespace penstock {

inline constexpr const char* kWordsFile = "words.json";

/// Throws Error for a file that word_encoder's did not write.
std::shared_ptr<const TextEncoder> load_word_encoder(const std::string& directory);

}  // namespace penstock
