// What the writer and the reader of a tokenizer's GGUF keys share: the names of keys, of token
// types and of rows without a token. gguf_tokenizer.h and gguf_vocabulary.h have the meaning of the
// keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/data/vocabulary.h"

namespace penstock {

/// The full name of a tokenizer's key: "tokenizer.ggml.NAME".
inline std::string ggml_key(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

/// The numbers of token types in files.
inline constexpr std::array<std::pair<Vocabulary::PieceType, std::int32_t>, 6> kGgufPieceTypes = {
    {{Vocabulary::PieceType::kNormal, 1},
     {Vocabulary::PieceType::kUnknown, 2},
     {Vocabulary::PieceType::kControl, 3},
     {Vocabulary::PieceType::kUserDefined, 4},
     {Vocabulary::PieceType::kUnused, 5},
     {Vocabulary::PieceType::kByte, 6}}};

/// The name of an embedding row that the tokenizer never uses. Converters use the same name.
inline std::string gguf_filler_name(std::size_t id) { return "[PAD" + std::to_string(id) + "]"; }

}  // namespace penstock
