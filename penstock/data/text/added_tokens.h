// Tokens that are found in text before any other step: special tokens ("<s>") and tokens that were
// added to a vocabulary later.
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
  bool lstrip = false;       ///< includes the white space before it
  bool rstrip = false;       ///< includes the white space after it
  bool single_word = false;  ///< does not match beside a word character
  bool normalized = false;   ///< is searched in normalised text
  bool control = false;      ///< "special": decodes to an empty text

  bool operator==(const AddedToken&) const = default;
};

/// A set of added tokens to find in text.
class AddedTokens {
 public:
  static constexpr std::size_t kLongest = 1024;

  AddedTokens() { begins_.fill(false); }
  /// Throws Error for a token whose content is empty or longer than kLongest bytes.
  void add(const AddedToken& token);
  bool empty() const { return nodes_ == 1; }

  struct Part {
    std::string_view text;
    TokenId id;  ///< -1: text between tokens
  };
  /// Cuts the text at tokens: the leftmost first, and the longest of those that begin there. The
  /// parts cover the text and none is empty. A `single_word` token inside a longer word stays text,
  /// and the search continues after it, as in Hugging Face's tokenizers library.
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
