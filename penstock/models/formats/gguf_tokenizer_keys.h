// What writing a tokenizer's GGUF keys and reading them have in common: how keys, types of tokens
// and rows without a token are named. What the keys mean is gguf_tokenizer.h's and
// gguf_vocabulary.h's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/data/vocabulary.h"

namespace penstock {

/// "tokenizer.ggml.NAME".
inline std::string ggml_key(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

/// Numbers of token types in files.
inline constexpr std::array<std::pair<Vocabulary::PieceType, std::int32_t>, 6> kGgufPieceTypes = {
    {{Vocabulary::PieceType::kNormal, 1},
     {Vocabulary::PieceType::kUnknown, 2},
     {Vocabulary::PieceType::kControl, 3},
     {Vocabulary::PieceType::kUserDefined, 4},
     {Vocabulary::PieceType::kUnused, 5},
     {Vocabulary::PieceType::kByte, 6}}};

/// Name of a row of the embedding that the tokenizer never uses; converters agree on it.
inline std::string gguf_filler_name(std::size_t id) { return "[PAD" + std::to_string(id) + "]"; }

}  // namespace penstock
