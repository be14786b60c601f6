#include "penstock/data/packages/roff_escapes.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

namespace penstock {
namespace {

using Named = std::pair<std::string_view, std::string_view>;

/// The characters of groff_char(7) that pages use.
constexpr std::array<Named, 49> kCharacters = {{
    {"aq", "'"}, {"dq", "\""}, {"oq", "‘"}, {"cq", "’"}, {"lq", "“"}, {"rq", "”"}, {"Bq", "„"},
    {"bq", "‚"}, {"Fo", "«"},  {"Fc", "»"}, {"fo", "‹"}, {"fc", "›"}, {"em", "—"}, {"en", "–"},
    {"hy", "-"}, {"mi", "−"},  {"bu", "•"}, {"co", "©"}, {"rg", "®"}, {"tm", "™"}, {"de", "°"},
    {"mu", "×"}, {"di", "÷"},  {"+-", "±"}, {"->", "→"}, {"<-", "←"}, {"<>", "↔"}, {"ua", "↑"},
    {"da", "↓"}, {"<=", "≤"},  {">=", "≥"}, {"!=", "≠"}, {"==", "≡"}, {"ti", "~"}, {"ha", "^"},
    {"ga", "`"}, {"rs", "\\"}, {"at", "@"}, {"sh", "#"}, {"Do", "$"}, {"ba", "|"}, {"lB", "["},
    {"rB", "]"}, {"lC", "{"},  {"rC", "}"}, {"la", "⟨"}, {"ra", "⟩"}, {"sc", "§"}, {"Eu", "€"},
}};

void append_code_point(std::uint32_t code, std::string& out) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    if (code >= 0xd800 && code < 0xe000) return;
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else if (code < 0x110000) {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

void append_named(std::string_view name, std::string& out) {
  const auto* found = std::ranges::find(kCharacters, name, &Named::first);
  if (found != kCharacters.end()) {
    out += found->second;
  } else if (name.starts_with('u') && name.size() >= 5) {
    std::uint32_t code = 0;
    const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), code, 16);
    if (error == std::errc() && end == name.data() + name.size()) append_code_point(code, out);
  }
}

class Escapes {
 public:
  explicit Escapes(std::string_view line) : line_(line) {}

  std::string read() {
    while (at_ < line_.size()) {
      const char c = line_[at_++];
      if (c != '\\')
        out_ += c;
      else if (at_ < line_.size() && !escape(line_[at_++]))
        break;
    }
    return std::move(out_);
  }

 private:
  /// Reads one escape. Returns false if the rest of the line is a comment.
  bool escape(char c) {
    if (c == '"' || c == '#') return false;
    constexpr std::string_view kThemselves = "-'`.", kSpaces = " ~0t", kNamed = "f*nFmMk",
                               kQuoted = "hvwlLDoNbABCHSXZx";
    if (kThemselves.find(c) != kThemselves.npos)
      out_ += c;
    else if (c == 'e' || c == '\\')
      out_ += '\\';
    else if (kSpaces.find(c) != kSpaces.npos)
      out_ += ' ';
    else if (c == '(')
      append_named(take(2), out_);
    else if (c == '[')
      append_named(to(']'), out_);
    else if (kNamed.find(c) != kNamed.npos)
      name();
    else if (c == 's')
      size();
    else if (kQuoted.find(c) != kQuoted.npos)
      quoted();
    // \& \| \^ \% \: \/ \, \c and the like print nothing.
    return true;
  }

  std::string_view take(std::size_t count) {
    const std::string_view part = line_.substr(at_, count);
    at_ += part.size();
    return part;
  }
  /// The text before the closing character. Moves behind that character.
  std::string_view to(char closing) {
    const std::size_t end = std::min(line_.find(closing, at_), line_.size());
    const std::string_view part = line_.substr(at_, end - at_);
    at_ = std::min(end + 1, line_.size());
    return part;
  }
  /// Skips a name of a font, string or register: one character, two after "(", or any number in
  /// brackets.
  void name() {
    const std::string_view first = take(1);
    if (first == "(") take(2);
    if (first == "[") to(']');
  }
  /// Skips a size: \s0, \s-1, \s+12, \s(12, \s[12]
  void size() {
    if (at_ < line_.size() && (line_[at_] == '+' || line_[at_] == '-')) ++at_;
    name();
  }
  void quoted() {
    const std::string_view quote = take(1);
    if (!quote.empty()) to(quote[0]);
  }

  std::string_view line_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string roff_text(std::string_view line) { return Escapes(line).read(); }

}  // namespace penstock
