// The rules by which published byte-level vocabularies cut text into words, under the names that
// GGUF files know them by.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// A rule: patterns applied in order, each to the parts that the patterns before it left.
struct PreTokenizer {
  std::string_view name;
  std::vector<std::string> patterns;
  bool whole_words = false;  ///< a word that is a piece becomes that piece, whatever the merges
  bool composes = false;     ///< text is first normalised to NFC
};

/// The rule of that name, or of a name for the same rule ("olmo" is "gpt-2"). Null where it is not
/// known. Source: the tokenizer files published with the vocabularies, and llama.cpp's names.
const PreTokenizer* find_pre_tokenizer(std::string_view name);

/// Its patterns. Throws Error for a name that is not known.
std::vector<std::string> pre_tokenizer_patterns(std::string_view name);

/// The name of the rule that gives the ids that these cuts give, empty where there is none.
/// @param patterns       as a tokenizer.json has them, and
/// @param byte_patterns  those behind ByteLevel, which see bytes under their printable names
/// @param any_piece      whether a pattern matches in some piece as the vocabulary spells it: cuts
///                       that the named rule lacks change nothing where no piece lies across them
std::string pre_tokenizer_name(const std::vector<std::string>& patterns,
                               const std::vector<std::string>& byte_patterns,
                               const std::function<bool(const std::string& pattern)>& any_piece);

}  // namespace penstock
