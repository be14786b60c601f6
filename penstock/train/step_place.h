// The position within a step, before its update. Watchers get it between micro-batches and layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

#include "penstock/models/language_model.h"

namespace penstock {

struct StepPlace {
  std::size_t part = 0, parts = 1;     ///< micro-batch of training, or pass of fine-tuning
  std::int64_t layer = 0, layers = 1;  ///< layer == layers: the head
  PassDirection direction = PassDirection::forward;
};

/// Thrown through a step that a signal stops, here or in another process of the run.
class StepStopped : public std::exception {
 public:
  explicit StepStopped(int signal) : signal_(signal) {}
  int signal() const { return signal_; }
  const char* what() const noexcept override { return "a signal stopped the step"; }

 private:
  int signal_;
};

/// Called during a step. If it throws an exception derived from std::exception, the step is
/// abandoned before its update.
using StepWatch = std::function<void(const StepPlace& place)>;

/// A watch for a model's layers in part `part`. It tells `watch` the place of each layer; null if
/// `watch` is null.
/// REQUIRES: `watch` outlives the returned watch.
LayerWatch watch_of_part(const StepWatch& watch, std::size_t part, std::size_t parts,
                         std::int64_t layers);

/// The place in words: "micro-batch 2 of 4, layer 3 of 8 forward", "head backward". `part` is the
/// name of a part; the text names the part if there are several.
std::string place_text(const StepPlace& place, const std::string& part);

}  // namespace penstock
