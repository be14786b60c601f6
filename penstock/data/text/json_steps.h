// The "normalizer", "pre_tokenizer" and "decoder" of a tokenizer.json. A step that is not
// implemented is an error that names it: ignoring it would silently change the tokens.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "penstock/data/text/steps.h"

namespace penstock {

/// The steps, and what a neutral description needs to know of them.
struct JsonSteps {
  TextSteps steps;
  bool bytes = false;                      ///< a ByteLevel is among them
  bool composes = false;                   ///< NFC is among them
  bool prefixes_space = false;             ///< a mark is put before the text
  bool prefixes_once = false;              ///< no mark before text that follows an added token
  std::string mark;                        ///< replaces spaces
  std::vector<std::string> patterns;       ///< of cuts that isolate matches, one after another
  std::vector<std::string> byte_patterns;  ///< and of those behind ByteLevel
  bool plain = true;                       ///< the members above describe all steps
};

/// Throws Error for a step that is not implemented.
JsonSteps read_normalizer(const nlohmann::json& json);
JsonSteps read_pre_tokenizer(const nlohmann::json& json);

struct JsonDecoder {
  bool bytes = false;              ///< ByteLevel
  bool byte_fallback = false;      ///< "<0x0A>" is a byte
  bool drops_first_space = false;  ///< of the whole text
  std::string mark;                ///< becomes a space
};
JsonDecoder read_decoder(const nlohmann::json& json);

}  // namespace penstock
