// The rules by which published byte-level vocabularies cut text into words, under the names that
// GGUF files know them by.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// The pattern of the rule: "gpt-2" (also "olmo"), "qwen2", "llama-bpe". Throws Error for a name
/// that is not known. Source: the patterns published with each of the vocabularies.
std::string pre_tokenizer_pattern(std::string_view name);

/// The name of the rule whose pattern this is, empty where there is none.
std::string pre_tokenizer_name(std::string_view pattern);

}  // namespace penstock
