// The authors' encoding of texts by words, and the place of its vocabulary beside a model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/finetune/texts.h"

namespace penstock {

inline constexpr const char* kWordsFile = "words.json";

/// The authors' encoding: `<CLS> words <S>`, words being what white space separates, ASCII letters
/// in lower case. Ids: <pad> 0, <unk> 1, <CLS> 2, <S> 3, then the words of `sets` by falling count,
/// equals by their bytes. Source: HyperRouter's fine-tuning code, whose <unk> no text needs.
std::shared_ptr<const TextEncoder> word_encoder(const std::vector<const ClassificationSet*>& sets);

/// Throws Error for a file that word_encoder's did not write.
std::shared_ptr<const TextEncoder> load_word_encoder(const std::string& directory);

}  // namespace penstock
