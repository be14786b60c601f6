// The tokenizer without a vocabulary to learn: one id per byte, 256 in all.
#pragma once

#include <array>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/data/tokenizer.h"

namespace penstock {

inline constexpr const char* kBytesFile = "tokenizer.json";

/// Id = byte. With `end_of_document`, id 0 ends a document and text must not hold NUL bytes;
/// without, there is no such id.
std::shared_ptr<const Tokenizer> make_bytes_tokenizer(bool end_of_document);

/// From a vocabulary of the kind kBytes in which each id is its byte.
std::shared_ptr<const Tokenizer> make_bytes_tokenizer(const Vocabulary& vocabulary);

/// From a tokenizer.json; `name` stands for the file in errors.
std::shared_ptr<const Tokenizer> load_bytes_tokenizer(const nlohmann::json& json,
                                                      const std::string& name);

/// The printable stand-ins of GPT-2's byte-level BPE, [byte]: one that is printable Latin-1 stands
/// for itself, the other 68 take the code points from U+0100 on, in order.
std::array<std::string, 256> printable_bytes();

}  // namespace penstock
