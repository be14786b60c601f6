// The names of tokenizers' files in a folder.
#pragma once

#include <array>

namespace penstock {

inline constexpr const char* kBytesFile = "tokenizer.json";
inline constexpr const char* kTokenizerConfigFile = "tokenizer_config.json";
inline constexpr const char* kSentencePieceFile = "tokenizer.model";
inline constexpr const char* kVocabFile = "vocab.json";
inline constexpr const char* kMergesFile = "merges.txt";
inline constexpr const char* kTokenizerBinFile = "tokenizer.bin";

/// Files of which each is a tokenizer (vocab.json together with merges.txt). The first one that a
/// folder has counts.
inline constexpr std::array<const char*, 4> kTokenizerFiles = {kBytesFile, kSentencePieceFile,
                                                               kVocabFile, kTokenizerBinFile};
/// Files that belong to those.
inline constexpr std::array<const char*, 2> kFilesBeside = {kMergesFile, kTokenizerConfigFile};

}  // namespace penstock
