// The authors' encoding of texts by words, and the file of its vocabulary in a model's folder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/finetune/texts.h"

namespace penstock {

inline constexpr const char* kWordsFile = "words.json";

/// The authors' encoding: `<CLS> words <S>`. White space separates the words; ASCII letters become
/// lower case. Ids: <pad> 0, <unk> 1, <CLS> 2, <S> 3, then the words of `sets` by falling count,
/// equal counts by their bytes. Source: HyperRouter's fine-tuning code, where no text needs <unk>.
std::shared_ptr<const TextEncoder> word_encoder(const std::vector<const ClassificationSet*>& sets);

/// Reads the encoder from a directory. Throws Error for a file that is not from word_encoder().
std::shared_ptr<const TextEncoder> load_word_encoder(const std::string& directory);

}  // namespace penstock
