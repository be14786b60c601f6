#include "penstock/cli/info/recomputed.h"

namespace penstock {

nlohmann::ordered_json recomputed_json(const RecomputeChoice& choice) {
  if (choice.again == 0) return nullptr;
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const Recomputed what : choice.layers) layers.push_back(word(what));
  return {{"layers", std::move(layers)}, {"flops", choice.again}};
}

}  // namespace penstock
