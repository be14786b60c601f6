// The tokenizer without a vocabulary to learn: one id per byte, 256 in all.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// Each byte is its own id. With `end_of_document`, id 0 ends a document and text must not contain
/// NUL bytes. Without it, no id ends a document.
std::shared_ptr<const Tokenizer> make_bytes_tokenizer(bool end_of_document);

/// Makes the tokenizer from a vocabulary of the kind kBytes in which each id is its byte.
std::shared_ptr<const Tokenizer> make_bytes_tokenizer(const Vocabulary& vocabulary);

/// Loads a tokenizer.json; `name` stands for the file in errors.
std::shared_ptr<const Tokenizer> load_bytes_tokenizer(const nlohmann::json& json,
                                                      const std::string& name);

}  // namespace penstock
