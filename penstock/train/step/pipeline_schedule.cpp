#include "penstock/train/step/pipeline_schedule.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/models/counts/flops.h"

namespace penstock {
namespace {

/// The forward passes, ordered by group of `stages` parts, then by chunk, then by part.
std::vector<StageAction> forward_passes(std::size_t parts, std::size_t stages, int chunks) {
  std::vector<StageAction> out;
  for (std::size_t group = 0; group < parts; group += stages)
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (std::size_t part = group; part < std::min(group + stages, parts); ++part)
        out.push_back({.part = part, .chunk = chunk});
  return out;
}

/// The number of forward passes before the first backward pass.
std::size_t warm_up(std::size_t parts, std::size_t stage, std::size_t stages, int chunks) {
  const std::size_t behind = stages - 1 - stage;
  if (chunks == 1) return std::min(parts, behind);
  const auto further = static_cast<std::size_t>(chunks - 1);
  return std::min(parts * (further + 1), 2 * behind + further * stages);
}

}  // namespace

std::vector<StageAction> stage_actions(std::size_t parts, int stage, int stages, int chunks) {
  PENSTOCK_ASSERT(stage >= 0 && stage < stages && chunks > 0);
  const auto count = static_cast<std::size_t>(stages);
  PENSTOCK_ASSERT(chunks == 1 || parts % count == 0, "chunks need whole groups of parts");
  const std::vector<StageAction> forward = forward_passes(parts, count, chunks);
  std::vector<StageAction> out;
  std::size_t ahead = warm_up(parts, static_cast<std::size_t>(stage), count, chunks);
  out.insert(out.end(), forward.begin(), forward.begin() + static_cast<std::ptrdiff_t>(ahead));
  for (StageAction back : forward) {
    if (ahead < forward.size()) out.push_back(forward[ahead++]);
    back.direction = PassDirection::backward;
    back.chunk = chunks - 1 - back.chunk;
    out.push_back(back);
  }
  return out;
}

std::size_t passes_held(std::size_t parts, int stage, int stages, int chunks) {
  std::size_t held = 0, most = 0;
  for (const StageAction& action : stage_actions(parts, stage, stages, chunks)) {
    held += action.direction == PassDirection::forward ? 1 : -1;
    most = std::max(most, held);
  }
  return most;
}

}  // namespace penstock
