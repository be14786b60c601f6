// The rules by which published byte-level vocabularies cut text into words, under the names that
// GGUF files use.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// A rule: patterns applied in order, each to the parts that the earlier patterns left.
struct PreTokenizer {
  std::string_view name;
  std::vector<std::string> patterns;
  bool whole_words = false;  ///< a word that is a piece becomes that piece, without merging
  bool composes = false;     ///< text is first normalised to NFC
};

/// The rule of that name, which may be another name of the same rule ("olmo" is "gpt-2"). Null if
/// the name is unknown. Source: the tokenizer files published with the vocabularies, and
/// llama.cpp's names.
const PreTokenizer* find_pre_tokenizer(std::string_view name);

/// The patterns of the rule. Throws Error for an unknown name.
std::vector<std::string> pre_tokenizer_patterns(std::string_view name);

/// The name of the rule that gives the same ids as these patterns, or "" if there is none.
/// @param patterns       the patterns of a tokenizer.json that are applied before ByteLevel
/// @param byte_patterns  those after ByteLevel, which see bytes under their printable names
/// @param any_piece      whether a pattern matches in some piece as the vocabulary spells it. Cuts
///                       that the named rule lacks change nothing if no piece extends across them.
std::string pre_tokenizer_name(const std::vector<std::string>& patterns,
                               const std::vector<std::string>& byte_patterns,
                               const std::function<bool(const std::string& pattern)>& any_piece);

}  // namespace penstock
