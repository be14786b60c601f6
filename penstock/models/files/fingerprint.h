// A hash that tells whether two checkpoints are the same model.
#pragma once

#include <string>

#include "penstock/models/model_source.h"

namespace penstock {

/// XXH64 over the config and over every tensor's name and stored bytes, as 16 hexadecimal digits.
/// Equal models have equal fingerprints at any path. It protects against mix-ups, not against
/// adversaries.
/// Cost: reads every tensor once.
std::string fingerprint(const ModelSource& source);

}  // namespace penstock
