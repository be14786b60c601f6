// Writes a tokenizer.model (a SentencePiece model) without the library.
#pragma once

#include <string>

#include "penstock/data/vocabulary.h"

namespace penstock {

/// The model file of a vocabulary of one of the SentencePiece kinds: no normalisation, white space
/// kept. Source: sentencepiece_model.proto of the library; protobuf.dev, "Encoding".
std::string sentencepiece_model(const Vocabulary& vocabulary);

}  // namespace penstock
