// Converts a line of metrics.jsonl to TensorBoard's scalars.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/train/tensorboard.h"

namespace penstock {

/// The numbers of a line by tag: "train/NAME" for numbers of the line itself, "OBJECT/NAME" for
/// numbers of an object in the line, such as "validation/loss". The step has no tag.
std::map<std::string, double> metrics_scalars(const nlohmann::ordered_json& line);

/// Appends an event with the line's step, its metrics_scalars() and the present time.
void write_metrics_event(TensorBoardWriter& events, const nlohmann::ordered_json& line);

}  // namespace penstock
