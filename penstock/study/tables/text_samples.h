// Held-out text as a finished run's model continues it, kept in the run's folder (samples.json).
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
  std::string refused;  ///< why there are none; "" where there are
  std::vector<TextSample> samples;
  template <class V>
  void visit(V& v) {
    v("split", split);
    v("refused", refused);
    v("samples", samples, Presence::required);
  }
};

/// Two passages of the measured split, evenly spaced and not chosen, each continued by up to 96
/// tokens: the final checkpoint of the run, temperature 0.8, drawn by the recipe's seed. Written to
/// samples.json, complete or not at all. A model that is not causal refuses.
/// Throws Error where the run has no whole checkpoint, or its corpus does not open.
void write_text_samples(const std::string& run_directory);
/// What write_text_samples wrote there, if anything. Throws Error naming a damaged file.
std::optional<TextSamples> read_text_samples(const std::string& run_directory);

}  // namespace penstock::study
