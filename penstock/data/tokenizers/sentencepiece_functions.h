// The functions of the SentencePiece module, found by name after loading it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "penstock/data/tokenizer.h"

namespace penstock {

struct SentencePieceFunctions {
  std::shared_ptr<const Tokenizer> (*train)(const std::string& kind, std::int64_t vocab_size,
                                            std::span<const std::string_view> texts);
  std::shared_ptr<const Tokenizer> (*load)(const std::string& content, const std::string& name,
                                           const std::map<std::string, std::string>& beside);
};

inline constexpr const char* kSentencePieceEntry = "penstock_sentencepiece";

}  // namespace penstock
