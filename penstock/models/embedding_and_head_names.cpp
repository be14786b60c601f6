#include "penstock/models/embedding_and_head_names.h"

#include <algorithm>
#include <array>

namespace penstock {

bool only_head_reads(std::string_view parameter) {
  constexpr std::array<std::string_view, 4> kHeads = {
      kHeadParameter, kHeadBiasParameter, kClusterWeightParameter, kClusterBiasParameter};
  return std::ranges::find(kHeads, parameter) != kHeads.end();
}

}  // namespace penstock
