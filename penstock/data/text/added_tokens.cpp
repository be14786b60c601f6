#include "penstock/data/text/added_tokens.h"

#include "penstock/base/error.h"
#include "penstock/data/text/unicode.h"

namespace penstock {
namespace {

/// Whether the character has Unicode's property White_Space, which the trimming of strings uses.
bool is_white_space(std::string_view character) {
  if (character.size() == 1) {
    const char c = character.front();
    return c == ' ' || (c >= '\t' && c <= '\r');
  }
  static constexpr std::string_view kWide[] = {
      "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
      "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
      "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
      "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
  for (const auto wide : kWide)
    if (character == wide) return true;
  return false;
}

/// Bytes of the white space character at the end of the text; 0 for none.
std::size_t white_space_before(std::string_view text) {
  for (std::size_t length = 1; length <= 3 && length <= text.size(); ++length)
    if (is_white_space(text.substr(text.size() - length))) return length;
  return 0;
}

/// Bytes of the white space character at the begin of the text; 0 for none.
std::size_t white_space_after(std::string_view text) {
  for (std::size_t length = 1; length <= 3 && length <= text.size(); ++length)
    if (is_white_space(text.substr(0, length))) return length;
  return 0;
}

/// Whether text[begin, end) has a word character on either side.
bool is_within_word(std::string_view text, std::size_t begin, std::size_t end) {
  const std::string_view before = text.substr(0, begin), after = text.substr(end);
  if (!after.empty() && is_word_character(after.substr(0, character_bytes(after)))) return true;
  for (std::size_t length = 1; length <= 4 && length <= before.size(); ++length) {
    const std::string_view last = before.substr(before.size() - length);
    if (character_bytes(last) == length && is_word_character(last)) return true;
  }
  return false;
}

std::uint64_t edge(std::uint32_t node, char byte) {
  return static_cast<std::uint64_t>(node) << 8 | static_cast<unsigned char>(byte);
}

}  // namespace

void AddedTokens::add(const AddedToken& token) {
  PENSTOCK_CHECK(!token.content.empty(), "the added token ", token.id, " is empty");
  PENSTOCK_CHECK(token.content.size() <= kLongest, "the added token ", token.id, " has ",
                 token.content.size(), " bytes, more than ", kLongest);
  std::uint32_t node = 0;
  for (const char byte : token.content) {
    const auto [it, added] = edges_.try_emplace(edge(node, byte), nodes_);
    if (added) ++nodes_;
    node = it->second;
  }
  ends_[node] = {token.id, token.lstrip, token.rstrip, token.single_word};
  begins_[static_cast<unsigned char>(token.content.front())] = true;
}

std::vector<AddedTokens::Part> AddedTokens::cut(std::string_view text) const {
  std::vector<Part> parts;
  std::size_t done = 0;
  const auto add = [&](std::size_t begin, std::size_t end, TokenId id) {
    if (end > begin) parts.push_back({text.substr(begin, end - begin), id});
  };
  for (std::size_t at = 0; at < text.size();) {
    const End* found = nullptr;
    std::size_t found_end = at;
    if (begins_[static_cast<unsigned char>(text[at])]) {
      std::uint32_t node = 0;
      for (std::size_t i = at; i < text.size(); ++i) {
        const auto next = edges_.find(edge(node, text[i]));
        if (next == edges_.end()) break;
        node = next->second;
        if (const auto end = ends_.find(node); end != ends_.end()) {
          found = &end->second;
          found_end = i + 1;
        }
      }
    }
    if (!found) {
      ++at;
      continue;
    }
    if (found->single_word && is_within_word(text, at, found_end)) {
      at = found_end;
      continue;
    }
    std::size_t begin = at;
    if (found->lstrip)
      while (const auto space = white_space_before(text.substr(done, begin - done))) begin -= space;
    if (found->rstrip)
      while (const auto space = white_space_after(text.substr(found_end))) found_end += space;
    add(done, begin, -1);
    add(begin, found_end, found->id);
    done = at = found_end;
  }
  add(done, text.size(), -1);
  return parts;
}

}  // namespace penstock
