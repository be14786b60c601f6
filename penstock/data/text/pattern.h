// Regular expressions of tokenizer files, matched by PCRE2 with Unicode's classes. Patterns and
// texts are untrusted: matching that would take too long ends with an Error.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace penstock {

/// A compiled pattern. Immutable and thread-safe.
class Pattern {
 public:
  /// Throws Error for a pattern that PCRE2 does not accept.
  /// @param literal  the pattern is plain text and matches itself
  explicit Pattern(std::string pattern, bool literal = false);
  ~Pattern();

  const std::string& text() const { return text_; }
  /// Calls visit(begin, end) for each match, from left to right. Matches do not overlap, and none
  /// is empty. Bytes that are not UTF-8 match nothing, and no match or lookahead extends across
  /// them. Throws Error if backtracking takes too many steps.
  void for_each_match(std::string_view text,
                      const std::function<void(std::size_t begin, std::size_t end)>& visit) const;

 private:
  struct Code;
  std::string text_;
  std::unique_ptr<const Code> code_;
};

}  // namespace penstock
