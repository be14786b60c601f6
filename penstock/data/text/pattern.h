// Regular expressions of tokenizer files, matched by PCRE2 with Unicode's classes. Patterns and
// texts come from outside: matching ends, with an Error where it would take too long.
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
  /// Throws Error for a pattern that PCRE2 does not take; `literal`: the text stands for itself.
  explicit Pattern(std::string pattern, bool literal = false);
  ~Pattern();

  const std::string& text() const { return text_; }
  /// Calls with the begin and end of each match, from left to right, none overlapping, none empty.
  /// Bytes that are not UTF-8 match nothing, and no match or lookahead extends across them.
  /// Throws Error if backtracking takes too many steps.
  void for_each_match(std::string_view text,
                      const std::function<void(std::size_t begin, std::size_t end)>& visit) const;

 private:
  struct Code;
  std::string text_;
  std::unique_ptr<const Code> code_;
};

}  // namespace penstock
