// Byte-pair encoding by ranked merges, over bytes or over characters, with the steps before it that
// a tokenizer.json describes. Reading the files is in data/tokenizers/tokenizer_json.h.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/data/text/added_tokens.h"
#include "penstock/data/text/steps.h"
#include "penstock/data/tokenizer.h"
#include "penstock/data/vocabulary.h"

namespace penstock {

/// The parts of a MergingTokenizer.
struct MergingParts {
  std::string spec, origin;                  ///< origin stands for the file in errors
  std::map<std::string, std::string> files;  ///< empty: written from the vocabulary

  /// kind, pre, pattern and the rest; its pieces and merges are the tokenizer's, the merges both
  /// strings being pieces as well as the two together. `pieces` of type kControl and kUserDefined
  /// are found in text only where `added` has them.
  Vocabulary vocabulary;
  /// The vocabulary describes the tokenizer completely.
  bool told_by_vocabulary = true;
  std::vector<AddedToken> added;
  TextSteps normalisers;  ///< of text between added tokens
  TextSteps cuts;         ///< of what these give, into words

  bool bytes = true;               ///< symbols are bytes; otherwise characters
  bool byte_fallback = false;      ///< a character without piece becomes pieces "<0x0A>"
  bool fuse_unknown = false;       ///< unknown characters that follow each other become one
  std::string mark;                ///< stands for a space in pieces; empty: nothing does
  bool drops_first_space = false;  ///< decoding a text leaves out the space that encoding added
};

/// Throws Error for parts that contradict each other.
std::shared_ptr<const Tokenizer> make_merging_tokenizer(MergingParts parts);

}  // namespace penstock
