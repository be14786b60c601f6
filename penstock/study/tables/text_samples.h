// Continuations of held-out text by a finished run's model, stored in the run's folder
// (samples.json).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/study/json_field.h"

namespace penstock::study {

struct TextSample {
  std::string prompt, text;  ///< text: without the prompt
  template <class V>
  void visit(V& v) {
    v("prompt", prompt);
    v("text", text);
  }
};

struct TextSamples {
  std::string split;
  std::string refused;  ///< the reason for having no samples; "" otherwise
  std::vector<TextSample> samples;
  template <class V>
  void visit(V& v) {
    v("split", split);
    v("refused", refused);
    v("samples", samples, Presence::required);
  }
};

/// Continues two passages of the measured split by up to 96 tokens each. The passages are evenly
/// spaced, not selected. Uses the run's final checkpoint, temperature 0.8 and the recipe's seed.
/// Writes samples.json atomically. For a model that is not causal it writes the reason instead.
/// Throws Error if the run has no complete checkpoint, or its corpus cannot be opened.
void write_text_samples(const std::string& run_directory);
/// Reads what write_text_samples() wrote there, if anything. Throws Error naming a damaged file.
std::optional<TextSamples> read_text_samples(const std::string& run_directory);

}  // namespace penstock::study
