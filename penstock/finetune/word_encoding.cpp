#include "penstock/finetune/word_encoding.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "penstock/base/ascii_lower.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"

namespace penstock {
namespace {

constexpr std::int64_t kUnknown = 1, kClass = 2, kEnd = 3;
const std::vector<std::string> kSpecialWords = {"<pad>", "<unk>", "<CLS>", "<S>"};

template <class See>
void for_each_word(std::string_view text, See see) {
  constexpr std::string_view space = " \t\r\n\f\v";
  for (std::size_t begin = text.find_first_not_of(space); begin != std::string_view::npos;) {
    const std::size_t end = text.find_first_of(space, begin);
    std::string word(text.substr(begin, end - begin));
    std::ranges::transform(word, word.begin(), ascii_lower);
    see(std::move(word));
    begin = end == std::string_view::npos ? end : text.find_first_not_of(space, end);
  }
}

class WordEncoder : public TextEncoder {
 public:
  /// @param words  the special words first
  explicit WordEncoder(std::vector<std::string> words) : words_(std::move(words)) {
    for (std::size_t i = kSpecialWords.size(); i < words_.size(); ++i)
      ids_.emplace(words_[i], static_cast<std::int64_t>(i));
  }

  std::int64_t vocab_size() const override { return std::ssize(words_); }
  std::map<std::string, std::string> files() const override {
    return {{kWordsFile, nlohmann::json(words_).dump() + "\n"}};
  }
  std::vector<std::int64_t> encode(std::string_view text, std::int64_t most,
                                   EncodedSet& totals) const override {
    std::vector<std::int64_t> out = {kClass};
    for_each_word(text, [&](const std::string& word) {
      const auto found = ids_.find(word);
      out.push_back(found == ids_.end() ? kUnknown : found->second);
    });
    if (std::ssize(out) > most - 1) {
      out.resize(static_cast<std::size_t>(most - 1));
      ++totals.truncated;
    }
    out.push_back(kEnd);
    return out;
  }

 private:
  std::vector<std::string> words_;
  std::unordered_map<std::string, std::int64_t> ids_;
};

}  // namespace

std::shared_ptr<const TextEncoder> word_encoder(const std::vector<const ClassificationSet*>& sets) {
  std::unordered_map<std::string, std::int64_t> counts;
  for (const ClassificationSet* set : sets)
    for (const auto& text : set->texts)
      for_each_word(text, [&](std::string word) { ++counts[std::move(word)]; });
  std::vector<std::pair<std::string, std::int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::vector<std::string> words = kSpecialWords;
  for (auto& [word, count] : sorted) words.push_back(std::move(word));
  return std::make_shared<WordEncoder>(std::move(words));
}

std::shared_ptr<const TextEncoder> load_word_encoder(const std::string& directory) {
  const std::string path = directory + "/" + kWordsFile;
  const auto json = nlohmann::json::parse(real_file_system().read(path), nullptr, false);
  PENSTOCK_CHECK(json.is_array() && json.size() >= kSpecialWords.size(), path,
                 ": is no list of words as `penstock finetune` writes it");
  std::vector<std::string> words;
  for (const auto& word : json) {
    PENSTOCK_CHECK(word.is_string(), path, ": entry ", words.size(), " is no word");
    words.push_back(word.get<std::string>());
  }
  PENSTOCK_CHECK(std::equal(kSpecialWords.begin(), kSpecialWords.end(), words.begin()), path,
                 ": does not begin with <pad>, <unk>, <CLS>, <S>");
  return std::make_shared<WordEncoder>(std::move(words));
}

}  // namespace penstock
