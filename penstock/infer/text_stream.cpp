#include "penstock/infer/text_stream.h"

#include <algorithm>

#include "penstock/data/utf8.h"

namespace penstock {
namespace {

constexpr std::string_view kNoCharacter = "\xef\xbf\xbd";  // U+FFFD

/// Whether more bytes could complete the first character of `bytes`, which is not valid yet.
bool unfinished(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  const std::size_t length = lead >= 0xc2 && lead < 0xe0   ? 2
                             : lead >= 0xe0 && lead < 0xf0 ? 3
                             : lead >= 0xf0 && lead < 0xf5 ? 4
                                                           : 1;
  if (bytes.size() >= length) return false;
  // Completes the character with the lowest and the highest possible bytes. If neither result is
  // valid, no completion is.
  for (const char filler : {'\x80', '\xbf'}) {
    std::string whole(bytes);
    whole.resize(length, filler);
    if (find_invalid_utf8(whole) == std::string_view::npos) return true;
  }
  return false;
}

/// Length of the longest suffix of `text` that is a proper prefix of `word`.
std::size_t overlap(std::string_view text, std::string_view word) {
  for (std::size_t n = std::min(text.size(), word.size() - 1); n > 0; --n)
    if (text.ends_with(word.substr(0, n))) return n;
  return 0;
}

}  // namespace

std::string TextStream::push(std::string_view bytes) {
  if (stopped_) return {};
  const auto waiting = static_cast<std::int64_t>(bytes_.size());
  bytes_ += bytes;
  const bool continued = waiting > 0 && (find_invalid_utf8(bytes_) > 0 || unfinished(bytes_));
  last_begin_ = characters_ + (continued ? 0 : waiting);  // else each becomes a U+FFFD
  while (!bytes_.empty()) {
    const std::size_t valid = std::min(find_invalid_utf8(bytes_), bytes_.size());
    add(std::string_view(bytes_).substr(0, valid));
    bytes_.erase(0, valid);
    if (bytes_.empty() || unfinished(bytes_)) break;
    add(kNoCharacter);
    bytes_.erase(0, 1);
  }
  return take_text(false);
}

std::string TextStream::finish() {
  if (stopped_) return {};
  for (std::size_t i = 0; i < bytes_.size(); ++i) add(kNoCharacter);
  bytes_.clear();
  return take_text(true);
}

void TextStream::add(std::string_view text) {
  text_ += text;
  const auto begins = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; };
  characters_ += std::ranges::count_if(text, begins);
}

std::string TextStream::take_text(bool all) {
  std::size_t end = std::string::npos, held = 0;
  for (const std::string& word : stop_) {
    end = std::min(end, text_.find(word));
    held = std::max(held, overlap(text_, word));
  }
  stopped_ = end != std::string::npos;
  if (!stopped_) end = text_.size() - (all ? 0 : held);
  std::string out = text_.substr(0, end);
  text_.erase(0, stopped_ ? std::string::npos : end);
  return out;
}

}  // namespace penstock
