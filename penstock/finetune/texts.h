// Sets of texts as token ids, and the interface of their encoders. model_encoder.h encodes texts by
// a model's tokenizer, word_encoding.h by words.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/classification/classification_data.h"

namespace penstock {

/// Labelled texts as token ids.
struct EncodedSet {
  std::vector<std::vector<std::int64_t>> texts;  ///< each has at least one id
  std::vector<std::int64_t> labels;
  std::int64_t truncated = 0;  ///< texts longer than the limit
  std::int64_t left_out = 0;   ///< characters that the tokenizer cannot represent

  std::int64_t size() const { return static_cast<std::int64_t>(texts.size()); }
  /// The length of each text, in ids.
  std::vector<std::size_t> lengths() const;
};

/// Turns texts into ids. Immutable.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  virtual std::int64_t vocab_size() const = 0;
  /// The files in a model's folder from which the encoder can be loaded.
  virtual std::map<std::string, std::string> files() const = 0;
  /// Encodes a text as 1 to `most` ids, including borders. Adds to the counts of `totals`.
  virtual std::vector<std::int64_t> encode(std::string_view text, std::int64_t most,
                                           EncodedSet& totals) const = 0;
  EncodedSet encode(const ClassificationSet& set, std::int64_t most) const;
};

}  // namespace penstock
