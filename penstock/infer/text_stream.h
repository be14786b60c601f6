// Turns tokens' bytes into text while they come: whole characters only, and no part of a stop
// string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Bytes in, text out. Bytes that are no UTF-8 come out as U+FFFD, one for each.
class TextStream {
 public:
  /// Ends before the first of these strings, none of them empty.
  explicit TextStream(std::vector<std::string> stop = {}) : stop_(std::move(stop)) {}

  /// Takes more bytes and returns the text that is certain now: an unfinished character waits, and
  /// so does what may be the beginning of a stop string.
  std::string push(std::string_view bytes);
  /// Whether a stop string has come; then no text follows.
  bool stopped() const { return stopped_; }
  /// The text that was held back.
  std::string finish();
  /// The number of characters before the bytes of the last push(), with those that are held back. A
  /// character that the bytes continue is not before them.
  std::int64_t last_begin() const { return last_begin_; }
  /// The number of whole characters so far, with those that are held back.
  std::int64_t characters() const { return characters_; }

 private:
  std::string take_text(bool all);
  /// Appends valid UTF-8 to the text.
  void add(std::string_view text);

  std::vector<std::string> stop_;
  std::string bytes_;            // not yet whole characters
  std::string text_;             // valid text that may begin a stop string
  std::int64_t characters_ = 0;  // whole ones
  std::int64_t last_begin_ = 0;
  bool stopped_ = false;
};

}  // namespace penstock
