// The files with which the Hugging Face libraries give the same tokens as Penstock.
#pragma once

#include <map>
#include <string>

#include "penstock/data/tokenizer.h"
#include "penstock/data/vocabulary.h"

namespace penstock {

/// tokenizer.json and tokenizer_config.json of a vocabulary. Byte kinds become a byte-level BPE,
/// SentencePiece's a BPE with the merges that the scores give (for merges of one score the order
/// can differ where pieces overlap themselves) or a Unigram model, both with bytes for unknown
/// characters and U+2581 for spaces (so U+2581 in text is a space there). Throws Error for what
/// has no such spelling.
std::map<std::string, std::string> hugging_face_files(const Vocabulary& vocabulary);

/// The tokenizer's own files if the libraries can read them, with a tokenizer_config.json added if
/// it has none; otherwise the files made from its vocabulary.
std::map<std::string, std::string> hugging_face_files(const Tokenizer& tokenizer);

}  // namespace penstock
