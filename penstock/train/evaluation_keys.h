// How an evaluation reads a split: keys that recipes and the command line have in common.
// evaluation_settings.h turns them into the options of an evaluation.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// Default number of streams that an evaluation cuts a split into, for a model that carries memory
/// along streams.
inline constexpr std::int64_t kStreamsOfMemory = 10;
/// The default number of streams for this model: 0 if the model has no memory.
inline std::int64_t usual_streams(const ModelConfig& model) {
  return model.has_memory() ? kStreamsOfMemory : 0;
}
/// The default number of streams in words, for help texts: "10 for transformer-xl, else 0".
inline std::string usual_streams_text() {
  return concat(kStreamsOfMemory, " for transformer-xl, else 0");
}

/// A config with a member of this type calls visit_keys() in its visit().
struct EvaluationKeys {
  /// Each default means that the key is not given.
  std::int64_t sequence_length = 0, streams = -1, memory = -1;

  /// For each key's help: the value that applies if the key is not given.
  struct Otherwise {
    std::string sequence_length, streams, memory;
  };

  /// @param before  prefix of the keys' names
  template <class V>
  void visit_keys(V& v, const std::string& before, const Otherwise& otherwise) {
    const auto key = [&](const char* name, std::int64_t EvaluationKeys::*member, const char* help,
                         const std::string& holds) {
      const std::int64_t none = EvaluationKeys().*member;
      const std::string text = concat(help, "; ", none, ": ", holds);
      v(before + name, this->*member, {.help = text, .min = static_cast<double>(none)});
    };
    key("sequence_length", &EvaluationKeys::sequence_length, "tokens per window in evaluation",
        otherwise.sequence_length);
    key("streams", &EvaluationKeys::streams,
        "number of streams that evaluation cuts a split into, with memory carried along each; 0: "
        "separate windows",
        otherwise.streams);
    key("memory", &EvaluationKeys::memory, "positions of memory in evaluation (transformer-xl)",
        otherwise.memory);
  }
};

}  // namespace penstock
