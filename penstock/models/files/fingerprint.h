// Whether two checkpoints are the same model.
#pragma once

#include <string>

#include "penstock/models/model_source.h"

namespace penstock {

/// 16 hexadecimal digits of the config and of every tensor's name and stored bytes (XXH64): equal
/// for equal models wherever they lie. Against mix-ups, not against adversaries. Reads every tensor
/// once.
std::string fingerprint(const ModelSource& source);

}  // namespace penstock
