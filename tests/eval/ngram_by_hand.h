// A corpus of two letters for n-gram models whose probabilities are worked out by hand.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/data/prepared_corpus.h"

namespace penstock::testing {

/// Bytes without ends of documents. The train split is "aabaa"; `test` has the test split's
/// documents.
inline Corpus corpus_by_hand(const std::filesystem::path& directory,
                             const std::vector<std::string>& test) {
  PrepareOptions options;
  const auto add = [&](const std::string& text, Split split) {
    const auto file = directory / (std::to_string(options.inputs.size()) + ".txt");
    std::ofstream(file) << text;
    options.inputs.push_back({.path = file.string(), .split = split});
  };
  add("aabaa", Split::kTrain);
  for (const std::string& text : test) add(text, Split::kTest);
  options.end_of_document = false;
  options.out = (directory / "by-hand").string();
  return prepared_corpus(options);
}

/// p(token | context) of the model of order 3 that is counted on "aabaa", with V ids.
///   aab, aba and baa occur once. aa has the symbols {begin, b} before it, ab and ba have {a}.
///   a has {begin, a, b} before it, and b has {a}. All discounts are ½, 1 and 1½.
/// So at each length one half of the probability is that of the shorter context.
struct ThirdOrderByHand {
  explicit ThirdOrderByHand(double vocab) : a(1.5 / 4 + 0.5 / vocab), b(0.5 / 4 + 0.5 / vocab) {}
  double a, b;                                                    // without a context
  double a_after_a = 1 / 3. + a / 2, b_after_a = 1 / 6. + b / 2;  // after one token
  double a_after_b = 0.5 + a / 2;
  double b_after_aa = 0.5 + b_after_a / 2, a_after_ab = 0.5 + a_after_b / 2;  // after two tokens
  double a_after_ba = 0.5 + a_after_a / 2, b_after_ba = b_after_a / 2;
};

}  // namespace penstock::testing
