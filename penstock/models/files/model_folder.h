// The small text files beside a model's weights.
#pragma once

#include <string>

namespace penstock {

/// The text of a file in a model's folder; "" if there is none, or if it is larger than 16 MiB.
/// @param model  path of a model directory, or of a file that is the model or lies in its directory
std::string text_beside(const std::string& model, const std::string& name);

}  // namespace penstock
