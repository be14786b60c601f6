// The names of the files that tokenizers leave in a folder.
#pragma once

#include <array>
#include <string_view>

#include "penstock/data/bytes_tokenizer.h"
#include "penstock/data/sentencepiece_tokenizer.h"
#include "penstock/data/tokenizer_bin.h"
#include "penstock/data/tokenizer_json.h"

namespace penstock {

/// Each is a tokenizer by itself (vocab.json with merges.txt beside it): in a folder, the first.
inline constexpr std::array<const char*, 4> kTokenizerFiles = {kBytesFile, kSentencePieceFile,
                                                               kVocabFile, kTokenizerBinFile};
/// Belong to those.
inline constexpr std::array<const char*, 2> kFilesBeside = {kMergesFile, kTokenizerConfigFile};

}  // namespace penstock
