// Small corpora for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/data/prepare/prepare.h"

namespace penstock::testing {

/// Prepares the corpus and opens it.
inline Corpus prepared_corpus(const PrepareOptions& options) {
  prepare_corpus(options);
  return Corpus::open(options.out);
}

inline std::vector<TokenId> ids_of_split(const Corpus& corpus, Split split) {
  const auto range = corpus.file().range(split);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(range.tokens));
  corpus.file().read(range.begin, ids);
  return {ids.begin(), ids.end()};
}

inline std::string text_of_split(const Corpus& corpus, Split split) {
  return corpus.tokenizer().decode(ids_of_split(corpus, split));
}

}  // namespace penstock::testing
