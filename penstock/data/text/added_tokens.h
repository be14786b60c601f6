// Tokens that are found in text before anything else is done to it: the special ones ("<s>") and
// those that a vocabulary got later.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "penstock/data/token_id.h"

namespace penstock {

struct AddedToken {
  TokenId id = -1;
  std::string content;
  bool lstrip = false;       ///< takes the white space before it along
  bool rstrip = false;       ///< and after it
  bool single_word = false;  ///< not where a character of a word stands next to it
  bool normalized = false;   ///< sought in normalised text
  bool control = false;      ///< "special": decoded to nothing

  bool operator==(const AddedToken&) const = default;
};

/// A set of added tokens to look for.
class AddedTokens {
 public:
  static constexpr std::size_t kLongest = 1024;

  AddedTokens() { begins_.fill(false); }
  /// Throws Error for a content that is empty or longer than kLongest.
  void add(const AddedToken& token);
  bool empty() const { return nodes_ == 1; }

  struct Part {
    std::string_view text;
    TokenId id;  ///< -1: text between tokens
  };
  /// Cuts the text at tokens, the leftmost first and of those the longest; covers the text, without
  /// empty parts. Where that one is a single word within a longer word it stays text, and the
  /// search goes on behind it, as in the tokenizers library.
  std::vector<Part> cut(std::string_view text) const;

 private:
  struct End {
    TokenId id = -1;
    bool lstrip = false, rstrip = false, single_word = false;
  };
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // node << 8 | byte -> node
  std::unordered_map<std::uint32_t, End> ends_;
  std::uint32_t nodes_ = 1;
  std::array<bool, 256> begins_;
};

}  // namespace penstock
