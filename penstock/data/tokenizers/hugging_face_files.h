// Writes tokenizer files with which the Hugging Face libraries give the same tokens as Penstock.
#pragma once

#include <map>
#include <string>

#include "penstock/data/tokenizer.h"
#include "penstock/data/vocabulary.h"

namespace penstock {

/// tokenizer.json and tokenizer_config.json of a vocabulary. The byte kinds become a byte-level
/// BPE. kSentencePieceBpe becomes a BPE with merges made from the scores (merges of the same score
/// can have another order if pieces overlap themselves), kSentencePieceUnigram a Unigram model;
/// both have bytes for unknown characters and U+2581 for spaces, so a U+2581 in text is a space for
/// them. Throws Error for a vocabulary that these files cannot describe.
std::map<std::string, std::string> hugging_face_files(const Vocabulary& vocabulary);

/// The tokenizer's own files if the libraries can read them, with a tokenizer_config.json added if
/// it has none; otherwise the files made from its vocabulary.
std::map<std::string, std::string> hugging_face_files(const Tokenizer& tokenizer);

}  // namespace penstock
