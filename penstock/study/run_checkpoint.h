// Selects the checkpoint of a run that a study measures.
#pragma once

#include <array>
#include <string_view>

#include "penstock/base/fields.h"

namespace penstock::study {

/// The newest checkpoint, or the one with the lowest validation loss.
enum class RunCheckpoint { final, best };
constexpr std::array<std::string_view, 2> words(RunCheckpoint) { return {"final", "best"}; }

}  // namespace penstock::study
