// The steps that a text goes through before its words are merged: normalising, cutting, marking
// spaces. Each step is one entry of a tokenizer.json's "normalizer" or "pre_tokenizer".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/data/text/pattern.h"
#include "penstock/data/text/unicode.h"

namespace penstock {

/// Maps the pieces of text to other pieces. Immutable and thread-safe.
class TextStep {
 public:
  virtual ~TextStep() = default;
  /// `begins_text`: the first piece is where the whole text begins.
  virtual void apply(std::vector<std::string>& pieces, bool begins_text) const = 0;
};
using TextSteps = std::vector<std::shared_ptr<const TextStep>>;

/// The steps one after another. Throws Error where text grows as no sensible steps let it grow.
void apply(const TextSteps& steps, std::vector<std::string>& pieces, bool begins_text);

/// How a pattern's matches and the text between them become pieces.
enum class SplitBehaviour {
  kIsolated,
  kRemoved,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous
};

/// The most bytes of text that a step may insert; a longer text is an Error.
inline constexpr std::size_t kLongestInsertion = 64;

std::shared_ptr<const TextStep> normal_form_step(NormalForm form);
/// Puts `prefix` before each piece that is not empty.
std::shared_ptr<const TextStep> prepend_step(std::string prefix);
/// Puts a space before each piece that has none at its begin (ByteLevel's add_prefix_space).
std::shared_ptr<const TextStep> prefix_space_step();
std::shared_ptr<const TextStep> replace_step(std::shared_ptr<const Pattern> pattern,
                                             std::string content);
/// `inverted`: what lies between matches counts as the matches.
std::shared_ptr<const TextStep> split_step(std::shared_ptr<const Pattern> pattern,
                                           SplitBehaviour behaviour, bool inverted);

/// Cuts out the pattern's matches.
std::shared_ptr<const TextStep> isolating_step(const std::string& pattern);
/// The step on text whose bytes stand under their printable names (printable_bytes()), as it is
/// behind ByteLevel; what it cuts within a character stays cut.
std::shared_ptr<const TextStep> byte_names_step(std::shared_ptr<const TextStep> step);

/// Where Metaspace puts a mark at a begin that has none.
enum class MarkBegin { kNever, kFirst, kAlways };
/// Spaces become `mark`; with `cut`, each piece begins at one.
std::shared_ptr<const TextStep> metaspace_step(std::string mark, MarkBegin begin, bool cut);

}  // namespace penstock
