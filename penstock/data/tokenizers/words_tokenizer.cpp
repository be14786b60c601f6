#include "penstock/data/tokenizers/words_tokenizer.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "penstock/base/error.h"
#include "penstock/data/tokenizers/tokenizer_files.h"

namespace penstock {
namespace {

/// Bytes of the white space character at the begin of `text`, as Python's str.isspace defines it; 0
/// for none.
std::size_t white_space_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(0), second = byte(1), third = byte(2);
  if (first < 0x80) return (first >= 0x09 && first <= 0x0d) || (first >= 0x1c && first <= 0x20);
  if (first == 0xc2) return second == 0x85 || second == 0xa0 ? 2 : 0;
  const bool wide =
      (first == 0xe1 && second == 0x9a && third == 0x80) ||  // U+1680
      (first == 0xe2 && second == 0x80 &&                    // U+2000 to U+200A, 2028, 2029, 202F
       ((third >= 0x80 && third <= 0x8a) || third == 0xa8 || third == 0xa9 || third == 0xaf)) ||
      (first == 0xe2 && second == 0x81 && third == 0x9f) ||  // U+205F
      (first == 0xe3 && second == 0x80 && third == 0x80);    // U+3000
  return wide ? 3 : 0;
}

/// Calls word(text, offset) for each word, and end() for each line, also for a last line without a
/// newline.
template <class Word, class End>
void for_each_word(std::string_view text, Word word, End end) {
  std::size_t begin = 0, at = 0;
  const auto finish = [&] {
    if (at > begin) word(text.substr(begin, at - begin), begin);
  };
  while (at < text.size()) {
    const std::size_t space = white_space_bytes(text.substr(at, 3));
    if (space == 0) {
      ++at;
      continue;
    }
    finish();
    if (text[at] == '\n') end();
    begin = at += space;
  }
  finish();
  if (!text.empty() && text.back() != '\n') end();
}

class WordsTokenizer : public Tokenizer {
 public:
  /// `words[0]` is kEndOfLine.
  explicit WordsTokenizer(std::vector<std::string> words) : words_(std::move(words)) {
    ids_.reserve(words_.size());
    for (std::size_t id = 0; id < words_.size(); ++id)
      ids_.emplace(words_[id], static_cast<TokenId>(id));
    if (const auto unknown = ids_.find(kUnknownWord); unknown != ids_.end())
      unknown_ = unknown->second;
  }
  WordsTokenizer(const WordsTokenizer&) = delete;  // ids_ refers to words_
  WordsTokenizer& operator=(const WordsTokenizer&) = delete;

  std::string spec() const override { return "words"; }
  std::int64_t vocab_size() const override { return std::ssize(words_); }
  TokenId end_of_document() const override { return -1; }

  void encode(std::string_view text, std::vector<TokenId>& ids) const override {
    for_each_word(
        text,
        [&](std::string_view word, std::size_t offset) {
          const auto found = ids_.find(word);
          const TokenId id = found == ids_.end() ? unknown_ : found->second;
          PENSTOCK_CHECK(id >= 0, "the word '", word.substr(0, 60), "' at offset ", offset,
                         " is not in the vocabulary, and neither is ", kUnknownWord);
          PENSTOCK_CHECK(id > 0, "the word ", kEndOfLine, " at offset ", offset,
                         " is what ends a line here; remove it from the text");
          ids.push_back(id);
        },
        [&] { ids.push_back(0); });
  }

  void decode(TokenId id, std::string& text) const override {
    check_id(id);
    text.push_back(' ');
    id == 0 ? text.push_back('\n') : void(text += words_[static_cast<std::size_t>(id)]);
  }

  std::map<std::string, std::string> files() const override {
    nlohmann::json vocab = nlohmann::json::object();
    for (std::size_t id = 0; id < words_.size(); ++id) vocab[words_[id]] = id;
    const nlohmann::json json = {
        {"version", "1.0"},
        {"added_tokens", nlohmann::json::array()},
        {"normalizer",
         {{"type", "Replace"},
          {"pattern", {{"String", "\n"}}},
          {"content", concat(" ", kEndOfLine, " ")}}},
        {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
        {"decoder", nullptr},
        {"model",
         {{"type", "WordLevel"}, {"vocab", std::move(vocab)}, {"unk_token", kUnknownWord}}}};
    return {{kBytesFile, json.dump(1) + "\n"}};
  }

 private:
  std::vector<std::string> words_;  // [id]
  std::unordered_map<std::string_view, TokenId> ids_;
  TokenId unknown_ = -1;
};

struct WordCount {
  std::string_view word;
  std::uint64_t count = 0;
};

}  // namespace

std::shared_ptr<const Tokenizer> train_words(std::span<const std::string_view> texts) {
  std::vector<WordCount> counts;  // in the order of first occurrence
  std::unordered_map<std::string_view, std::size_t> index;
  for (const auto text : texts)
    for_each_word(
        text,
        [&](std::string_view word, std::size_t) {
          const auto [at, added] = index.try_emplace(word, counts.size());
          if (added) counts.push_back({word});
          ++counts[at->second].count;
        },
        [] {});
  std::ranges::stable_sort(counts, std::greater<>(), &WordCount::count);
  std::vector<std::string> words{std::string(kEndOfLine)};
  for (const auto& entry : counts)
    if (entry.word != kEndOfLine) words.emplace_back(entry.word);
  return std::make_shared<WordsTokenizer>(std::move(words));
}

std::shared_ptr<const Tokenizer> load_words(const nlohmann::json& json, const std::string& name) {
  const nlohmann::json::json_pointer pointer("/model/vocab"), content("/normalizer/content");
  const bool readable = json.is_object() && json.contains(pointer) && json.contains(content) &&
                        json.at(pointer).is_object() &&
                        json.at(content) == concat(" ", kEndOfLine, " ");
  PENSTOCK_CHECK(readable, "'", name, "' is not a vocabulary of words that Penstock writes");
  const auto& vocab = json.at(pointer);
  std::vector<std::string> words(vocab.size());
  for (const auto& [word, value] : vocab.items()) {
    const bool good = !word.empty() && value.is_number_unsigned() && value < words.size() &&
                      words[value.get<std::size_t>()].empty();
    PENSTOCK_CHECK(good, "'", name, "' is not a vocabulary of words that Penstock writes: entry '",
                   word.substr(0, 60), "'");
    words[value.get<std::size_t>()] = word;
  }
  PENSTOCK_CHECK(!words.empty() && words[0] == kEndOfLine, "'", name, "' has no ", kEndOfLine,
                 " as its first entry");
  return std::make_shared<WordsTokenizer>(std::move(words));
}

}  // namespace penstock
