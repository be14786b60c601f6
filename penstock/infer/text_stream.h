// Turns the bytes of generated tokens into text as they arrive: only whole characters, and no part
// of a stop string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Each byte that is not valid UTF-8 becomes a U+FFFD.
class TextStream {
 public:
  /// The text ends before the first of these strings. REQUIRES: none of them is empty.
  explicit TextStream(std::vector<std::string> stop = {}) : stop_(std::move(stop)) {}

  /// Adds bytes and returns the text that has become certain. Holds back an unfinished character
  /// and text that may begin a stop string.
  std::string push(std::string_view bytes);
  /// Whether the text has reached a stop string; no text follows then.
  bool stopped() const { return stopped_; }
  /// Ends the text and returns what was held back.
  std::string finish();
  /// The number of characters before the bytes of the last push(), including held-back ones. A
  /// character that these bytes continue does not count.
  std::int64_t last_begin() const { return last_begin_; }
  /// The number of whole characters so far, including held-back ones.
  std::int64_t characters() const { return characters_; }

 private:
  std::string take_text(bool all);
  /// Appends valid UTF-8 to the text.
  void add(std::string_view text);

  std::vector<std::string> stop_;
  std::string bytes_;            // not yet whole characters
  std::string text_;             // valid text that may begin a stop string
  std::int64_t characters_ = 0;  // whole characters
  std::int64_t last_begin_ = 0;
  bool stopped_ = false;
};

}  // namespace penstock
