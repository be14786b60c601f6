#include "penstock/tasks/python_literal.h"

#include <charconv>
#include <string>

#include "penstock/base/error.h"

namespace penstock::tasks {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepestLiteral = 32;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Json whole() {
    Json out = value(0);
    skip_space();
    PENSTOCK_CHECK(at_ == text_.size(), "text behind the value at character ", at_);
    return out;
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }
  char peek() {
    skip_space();
    PENSTOCK_CHECK(at_ < text_.size(), "the value ends too early, at character ", at_);
    return text_[at_];
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) { PENSTOCK_CHECK(take(c), "'", c, "' is missing at character ", at_); }

  Json value(int depth) {
    PENSTOCK_CHECK(depth < kDeepestLiteral, "lists are nested too deep at character ", at_);
    const char c = peek();
    if (c == '[') return list(depth);
    if (c == '{') return table(depth);
    if (c == '\'' || c == '"') return text();
    for (const auto& [word, meaning] :
         {std::pair<std::string_view, Json>{"True", true}, {"False", false}, {"None", nullptr}})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return meaning;
      }
    std::int64_t number = 0;
    const auto parsed = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    PENSTOCK_CHECK(parsed.ec == std::errc(), "no value at character ", at_);
    at_ = static_cast<std::size_t>(parsed.ptr - text_.data());
    return number;
  }

  Json list(int depth) {
    Json out = Json::array();
    expect('[');
    while (!take(']')) {
      out.push_back(value(depth + 1));
      if (peek() != ']') expect(',');
    }
    return out;
  }

  Json table(int depth) {
    Json out = Json::object();
    expect('{');
    while (!take('}')) {
      PENSTOCK_CHECK(peek() == '\'' || peek() == '"', "a key is missing at character ", at_);
      std::string key = text();
      expect(':');
      out[key] = value(depth + 1);
      if (peek() != '}') expect(',');
    }
    return out;
  }

  std::string text() {
    const char quote = text_[at_++];
    std::string out;
    for (;; ++at_) {
      PENSTOCK_CHECK(at_ < text_.size(), "a text is not closed");
      if (text_[at_] == quote) break;
      if (text_[at_] == '\\')
        escape(out);
      else
        out += text_[at_];
    }
    ++at_;
    return out;
  }

  /// Reads an escape. Begins at the backslash and ends at the escape's last character.
  void escape(std::string& out) {
    ++at_;
    PENSTOCK_CHECK(at_ < text_.size(), "a text is not closed");
    const char c = text_[at_];
    switch (c) {
      case 'n':
        out += '\n';
        return;
      case 't':
        out += '\t';
        return;
      case 'r':
        out += '\r';
        return;
      case '\'':
      case '"':
      case '\\':
        out += c;
        return;
      case 'x':
        code_point(2, out);
        return;
      case 'u':
        code_point(4, out);
        return;
      case 'U':
        code_point(8, out);
        return;
      default:
        fail("the escape \\", c, " at character ", at_, " is unknown");
    }
  }

  void code_point(std::size_t digits, std::string& out) {
    std::uint32_t point = 0;
    const char* const begin = text_.data() + at_ + 1;
    PENSTOCK_CHECK(at_ + digits < text_.size(), "a text is not closed");
    const auto parsed = std::from_chars(begin, begin + digits, point, 16);
    PENSTOCK_CHECK(
        parsed.ptr == begin + digits && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff),
        "no character is meant at character ", at_);
    at_ += digits;
    if (point < 0x80) {
      out += static_cast<char>(point);
      return;
    }
    const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    const unsigned lead = more == 1 ? 0xc0 : more == 2 ? 0xe0 : 0xf0;
    out += static_cast<char>(lead | (point >> (6 * more)));
    for (int i = more - 1; i >= 0; --i)
      out += static_cast<char>(0x80 | ((point >> (6 * i)) & 0x3f));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Json parse_python_literal(std::string_view text) {
  try {
    return Parser(text).whole();
  } catch (const Error& error) {
    fail("this is no list in Python's notation: ", error.what());
  }
}

}  // namespace penstock::tasks
