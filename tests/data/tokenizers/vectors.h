// Test strings with the ids that other programs give them. The data lie beside the checkout.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "penstock/data/tokenizer.h"
#include "tests/data/support.h"

namespace penstock::testing {

struct TokenVector {
  std::string text;
  std::vector<TokenId> ids;
};

/// Reads `name`.inp (strings with separators) and `name`.out (a line of ids for each string).
/// Returns no vectors if the files are missing.
inline std::vector<TokenVector> token_vectors(const std::string& name) {
  const std::string input = shared_data(name + ".inp"), output = shared_data(name + ".out");
  std::vector<TokenVector> out;
  if (input.empty() || output.empty()) return out;
  const std::string separator = "\n__ggml_vocab_test__\n", all = read_bytes(input);
  std::istringstream lines(read_bytes(output));
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find(separator, begin), all.size());
    TokenVector one{.text = all.substr(begin, end - begin)};
    begin = end + separator.size();
    std::string line;
    std::getline(lines, line);
    std::istringstream numbers(line);
    for (TokenId id = 0; numbers >> id;) one.ids.push_back(id);
    out.push_back(std::move(one));
  }
  return out;
}

/// Expects each text to encode to its ids, and the ids to decode to the text.
inline void expect_agrees(const Tokenizer& tokenizer, const std::vector<TokenVector>& vectors) {
  for (const TokenVector& one : vectors) {
    EXPECT_EQ(tokenizer.encode(one.text), one.ids) << "'" << one.text << "'";
    EXPECT_EQ(tokenizer.decode(one.ids), one.text);
  }
}

/// Expects both tokenizers to encode every text alike.
inline void expect_same(const Tokenizer& one, const Tokenizer& other,
                        const std::vector<std::string>& texts) {
  EXPECT_EQ(one.vocab_size(), other.vocab_size());
  EXPECT_EQ(one.end_of_document(), other.end_of_document());
  for (const std::string& text : texts) {
    EXPECT_EQ(one.encode(text), other.encode(text)) << "'" << text.substr(0, 200) << "'";
    EXPECT_EQ(one.decode(one.encode(text)), other.decode(one.encode(text)));
  }
}

inline std::vector<std::string> texts_of(const std::vector<TokenVector>& vectors) {
  std::vector<std::string> out;
  for (const TokenVector& one : vectors) out.push_back(one.text);
  return out;
}

/// Texts on which tokenizers often fail. None has U+2581, which some tokenizers confuse with a
/// space.
inline const std::vector<std::string>& hard_texts() {
  static const std::vector<std::string> texts = {
      "",
      " ",
      "  ",
      "\n",
      "a",
      " leading, trailing  ",
      "tabs\tand\t\ttabs\n\tindented\r\n\r\n  \n",
      "it's we'LL o'clock 'tis don't DON'T",
      "1234567 12 3.14159 1,000 ²³ ½ Ⅷ ٣",
      "Ελληνικά, 日本語, עברית, नमस्ते, 한국어",
      "emoji 🙂🙃 flags 🇩🇰, family 👨‍👩‍👧",
      "combining e\xcc\x81 against \xc3\xa9, ligature \xef\xac\x81, full width \xef\xbc\xa1",
      "no-break\xc2\xa0space, em\xe2\x80\x83space, zero\xe2\x80\x8bwidth",
      "</s> <unk> <s> <0x41> <|endoftext|>",
      std::string(3000, 'x') + " " + std::string(3000, ' ') + "end" + std::string(300, '\n'),
      "!!!???...---===///\\\\\\###@@@",
  };
  return texts;
}

}  // namespace penstock::testing
