// Makes lists of tokens from their counts.
#include <fmt/format.h>

#include <algorithm>

#include "penstock/analysis/token_experts.h"

namespace penstock::analysis {
namespace {

std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c > ' ' && c < 127 ? std::string(1, c)
           : c == ' '         ? "␣"
                              : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

/// The token's text for a table; a name for a token without text.
std::string shown(TokenId id, const Tokenizer& tokenizer) {
  if (id == tokenizer.end_of_document()) return "<end of document>";
  std::string text;
  tokenizer.decode(id, text);
  return text.empty() ? fmt::format("<control {}>", id) : printable(text);
}

}  // namespace

std::vector<std::size_t> frequent_ids(const TokenExperts& counted) {
  std::vector<std::size_t> out;
  for (std::size_t id = 0; id < counted.count.size(); ++id)
    if (counted.count[id] >= kOccursOften) out.push_back(id);
  return out;
}

std::vector<ListedToken> listed_tokens(const TokenExperts& counted, const Tokenizer& tokenizer,
                                       std::vector<std::size_t> ids, std::size_t most,
                                       const std::function<double(std::size_t)>& value,
                                       bool descending) {
  const auto order = [&](std::size_t a, std::size_t b) {
    const double x = value(a), y = value(b);
    if (x != y) return descending ? x > y : x < y;
    return counted.count[a] != counted.count[b] ? counted.count[a] > counted.count[b] : a < b;
  };
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), most));
  std::partial_sort(ids.begin(), end, ids.end(), order);
  std::vector<ListedToken> out;
  for (auto it = ids.begin(); it != end; ++it)
    out.push_back({.id = static_cast<std::int64_t>(*it),
                   .text = shown(static_cast<TokenId>(*it), tokenizer),
                   .count = counted.count[*it],
                   .value = value(*it)});
  return out;
}

std::vector<ListedToken> surest_tokens(const TokenExperts& counted, const Tokenizer& tokenizer,
                                       std::size_t layer, std::size_t expert, std::size_t most) {
  return listed_tokens(counted, tokenizer, frequent_ids(counted), most, [&](std::size_t id) {
    return counted.by_expert(layer, expert, id) / counted.count[id];
  });
}

std::vector<ListedToken> commonest_tokens(const TokenExperts& counted, const Tokenizer& tokenizer,
                                          std::size_t layer, std::size_t expert, std::size_t most) {
  std::vector<std::size_t> ids;
  double all = 0;
  for (std::size_t id = 0; id < counted.count.size(); ++id)
    if (const double got = counted.by_expert(layer, expert, id); got > 0) {
      ids.push_back(id);
      all += got;
    }
  return listed_tokens(counted, tokenizer, std::move(ids), most,
                       [&](std::size_t id) { return counted.by_expert(layer, expert, id) / all; });
}

}  // namespace penstock::analysis
