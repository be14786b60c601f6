// A line of metrics.jsonl as TensorBoard's scalars.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/train/tensorboard.h"

namespace penstock {

/// The line's numbers as "train/NAME", and those of an object in it as "OBJECT/NAME": that of a
/// validation as "validation/loss". The step is none of them.
std::map<std::string, double> metrics_scalars(const nlohmann::ordered_json& line);

/// Appends an event of the line's step with these, at the present time.
void write_metrics_event(TensorBoardWriter& events, const nlohmann::ordered_json& line);

}  // namespace penstock
