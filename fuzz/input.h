// Helpers of the fuzz harnesses: they cut an input into files and call every method of a tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/data/tokenizer.h"
#include "penstock/data/tokenizers/from_vocabulary.h"
#include "penstock/data/vocabulary.h"

namespace penstock::fuzz {

/// Cuts the input at `separator`. Returns exactly `count` parts; the last part holds the rest.
inline std::vector<std::string> parts(const std::uint8_t* data, std::size_t size,
                                      std::string_view separator, std::size_t count) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> out;
  while (out.size() + 1 < count) {
    const std::size_t at = std::min(rest.find(separator), rest.size());
    out.emplace_back(rest.substr(0, at));
    rest.remove_prefix(std::min(rest.size(), at + separator.size()));
  }
  out.emplace_back(rest);
  return out;
}

/// Runs `call`. The call may throw an Error.
template <class Call>
void expect_answer(Call call) {
  try {
    call();
  } catch (const Error&) {
  }
}

/// Encodes and decodes `text` with the tokenizer and with the tokenizer made from its vocabulary.
/// Every id must lie within the vocabulary.
inline void use(const Tokenizer& tokenizer, const std::string& text) {
  const auto check = [&](const Tokenizer& one) {
    expect_answer([&] {
      const auto ids = one.encode(text);
      for (const TokenId id : ids)
        if (id < 0 || id >= one.vocab_size()) __builtin_trap();
      one.decode(ids);
      one.decode(one.encode_with_controls(text));
    });
  };
  check(tokenizer);
  tokenizer.token_bytes();
  if (const auto vocabulary = tokenizer.vocabulary();
      vocabulary && vocabulary->kind != Vocabulary::Kind::kSentencePieceUnigram)
    expect_answer([&] { check(*make_tokenizer(*vocabulary)); });
}

}  // namespace penstock::fuzz
