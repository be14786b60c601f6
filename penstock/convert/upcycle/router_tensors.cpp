#include "penstock/convert/upcycle/router_tensors.h"

#include <torch/nn/module.h>

#include "penstock/routers/parts.h"

namespace penstock {

RouterTensors tensors_of(const Scorer& scorer) {
  RouterTensors out;
  for (const auto& item : scorer.named_parameters()) out[item.key()] = item.value().detach();
  for (const auto& item : scorer.named_buffers()) out[item.key()] = item.value().detach();
  return out;
}

}  // namespace penstock
