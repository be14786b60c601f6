// The "normalizer", "pre_tokenizer" and "decoder" of a tokenizer.json. A step that is not
// implemented is an error that names it: ignoring it would silently change the tokens.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "penstock/data/text/steps.h"

namespace penstock {

/// The steps, and the properties of them that a Vocabulary states.
struct JsonSteps {
  TextSteps steps;
  bool bytes = false;                      ///< the steps include ByteLevel
  bool composes = false;                   ///< the steps include NFC
  bool prefixes_space = false;             ///< a mark is put before the text
  bool prefixes_once = false;              ///< text after an added token gets no mark
  std::string mark;                        ///< replaces spaces
  std::vector<std::string> patterns;       ///< patterns whose matches are isolated, in order
  std::vector<std::string> byte_patterns;  ///< those that are applied after ByteLevel
  bool plain = true;                       ///< the members above describe all steps
};

/// Throws Error for a step that is not implemented.
JsonSteps read_normalizer(const nlohmann::json& json);
JsonSteps read_pre_tokenizer(const nlohmann::json& json);

struct JsonDecoder {
  bool bytes = false;              ///< pieces spell bytes as ByteLevel does
  bool byte_fallback = false;      ///< the piece "<0x0A>" becomes a byte
  bool drops_first_space = false;  ///< removes a space at the beginning of the whole text
  std::string mark;                ///< becomes a space
};
JsonDecoder read_decoder(const nlohmann::json& json);

}  // namespace penstock
