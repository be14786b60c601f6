// Byte-pair encoding by ranked merges, over bytes or characters, after the steps of a
// tokenizer.json (data/text/steps.h). data/tokenizers/tokenizer_json.h reads the files.
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
  std::map<std::string, std::string> files;  ///< empty: made from the vocabulary

  /// The tokenizer's pieces and merges and its other properties. Both parts of each merge, and the
  /// two together, must be pieces. Pieces of type kControl and kUserDefined are found in text only
  /// if `added` lists them.
  Vocabulary vocabulary;
  /// The vocabulary describes the tokenizer completely.
  bool told_by_vocabulary = true;
  std::vector<AddedToken> added;
  TextSteps normalisers;  ///< applied to the text between added tokens
  TextSteps cuts;         ///< applied after the normalisers; they cut the text into words

  bool bytes = true;               ///< symbols are bytes; otherwise characters
  bool byte_fallback = false;      ///< a character without piece becomes pieces "<0x0A>"
  bool fuse_unknown = false;       ///< unknown characters that follow each other become one
  std::string mark;                ///< stands for a space in pieces; empty: there is no mark
  bool drops_first_space = false;  ///< decoding a text leaves out the space that encoding added
};

/// Makes the tokenizer. Throws Error for parts that contradict each other.
std::shared_ptr<const Tokenizer> make_merging_tokenizer(MergingParts parts);

}  // namespace penstock
