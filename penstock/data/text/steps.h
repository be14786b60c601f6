// The steps that a text goes through before its words are merged: normalising, cutting, marking
// spaces. Each step is one entry of a tokenizer.json's "normalizer" or "pre_tokenizer".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/data/text/pattern.h"
#include "penstock/data/text/unicode.h"

namespace penstock {

/// Replaces the pieces of a text by other pieces. Immutable and thread-safe.
class TextStep {
 public:
  virtual ~TextStep() = default;
  /// @param begins_text  whether the first piece is the beginning of the whole text
  virtual void apply(std::vector<std::string>& pieces, bool begins_text) const = 0;
};
using TextSteps = std::vector<std::shared_ptr<const TextStep>>;

/// Applies the steps in order. Throws Error if the text grows beyond a limit for sensible steps.
void apply(const TextSteps& steps, std::vector<std::string>& pieces, bool begins_text);

/// How a pattern's matches and the text between them become pieces.
enum class SplitBehaviour {
  kIsolated,
  kRemoved,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous
};

/// The most bytes of text that a step may insert; a longer insertion is an Error.
inline constexpr std::size_t kLongestInsertion = 64;

std::shared_ptr<const TextStep> normal_form_step(NormalForm form);
/// Puts `prefix` before each piece that is not empty.
std::shared_ptr<const TextStep> prepend_step(std::string prefix);
/// Puts a space before each piece that does not begin with one (ByteLevel's add_prefix_space).
std::shared_ptr<const TextStep> prefix_space_step();
std::shared_ptr<const TextStep> replace_step(std::shared_ptr<const Pattern> pattern,
                                             std::string content);
/// @param inverted  the text between matches counts as the matches
std::shared_ptr<const TextStep> split_step(std::shared_ptr<const Pattern> pattern,
                                           SplitBehaviour behaviour, bool inverted);

/// Makes each match of the pattern a piece of its own.
std::shared_ptr<const TextStep> isolating_step(const std::string& pattern);
/// Applies `step` to text in which each byte has its printable spelling (printable_bytes()), as
/// after ByteLevel. The step can also cut between the bytes of a character.
std::shared_ptr<const TextStep> byte_names_step(std::shared_ptr<const TextStep> step);

/// Where Metaspace puts a mark that the text lacks: nowhere, at the beginning of the whole text, or
/// at the beginning of every piece.
enum class MarkBegin { kNever, kFirst, kAlways };
/// Replaces spaces by `mark`; with `cut`, also cuts the text before each mark.
std::shared_ptr<const TextStep> metaspace_step(std::string mark, MarkBegin begin, bool cut);

}  // namespace penstock
