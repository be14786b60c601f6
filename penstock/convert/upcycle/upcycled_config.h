// The config of an upcycled model, and what the options of an upcycling come to for its method.
#pragma once

#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// The options with what k and `start` mean for this method filled in; the same again when
/// repeated. Throws Error for a method that has no router.
UpcycleOptions completed(UpcycleOptions options);

/// The config of the result. Throws Error for options that the method, the scorer or the parent do
/// not take.
ModelConfig upcycled_config(const ModelConfig& parent, const UpcycleOptions& options);

/// Where the rows of the routers' matrices are to point, as the options and the scorer say.
RouterDirections router_directions(const ModelConfig& config, const UpcycleOptions& options);

/// Whether the start is to be the parent's and gates need not sum to one, so that it is not quite.
bool measures_gate_sums(const ModelConfig& config, const UpcycleOptions& options);

}  // namespace penstock
