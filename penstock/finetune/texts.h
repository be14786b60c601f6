// Texts as token ids with borders, by the model's tokenizer or by words, and the sets of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/classification.h"
#include "penstock/data/tokenizer.h"

namespace penstock {

/// Labelled texts as a classifier reads them.
struct EncodedSet {
  std::vector<std::vector<std::int64_t>> texts;  ///< each at least one id
  std::vector<std::int64_t> labels;
  std::int64_t truncated = 0;  ///< texts longer than the limit
  std::int64_t left_out = 0;   ///< characters that the tokenizer cannot represent

  std::int64_t size() const { return static_cast<std::int64_t>(texts.size()); }
  /// Of each text, in ids.
  std::vector<std::size_t> lengths() const;
};

/// Turns texts into ids. Immutable.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  virtual std::int64_t vocab_size() const = 0;
  /// The files that restore it, beside a model.
  virtual std::map<std::string, std::string> files() const = 0;
  /// At most `most` ids, borders included; never none. Adds to the counts of `totals`.
  virtual std::vector<std::int64_t> encode(std::string_view text, std::int64_t most,
                                           EncodedSet& totals) const = 0;
  EncodedSet encode(const ClassificationSet& set, std::int64_t most) const;
};

/// A border, the text's ids, a border. The border is the id that ends documents; where the corpus
/// had none, a line break or else a space. A text that is too long loses its end, not its border.
/// Characters that the tokenizer cannot represent are left out.
/// Throws Error where the tokenizer has nothing that could be a border.
std::shared_ptr<const TextEncoder> tokenizer_encoder(std::shared_ptr<const Tokenizer> tokenizer);

/// The authors' encoding: `<CLS> words <S>`, words being what white space separates, ASCII letters
/// in lower case. Ids: <pad> 0, <unk> 1, <CLS> 2, <S> 3, then the words of `sets` by falling count,
/// equals by their bytes. Source: HyperRouter's fine-tuning code, whose <unk> no text needs.
std::shared_ptr<const TextEncoder> word_encoder(const std::vector<const ClassificationSet*>& sets);

/// The encoder whose files are in a directory: words.json where there is one, or a tokenizer's.
std::shared_ptr<const TextEncoder> load_text_encoder(const std::string& directory);

}  // namespace penstock
