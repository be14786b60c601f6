// The config of an upcycled model, and the options of an upcycling with its method's defaults
// filled in.
#pragma once

#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// The options with k and `start` filled in for the method. Calling it on its result changes
/// nothing. Throws Error for a method without a router.
UpcycleOptions completed(UpcycleOptions options);

/// The config of the result. Throws Error for options that do not fit the method, the scorer or the
/// parent.
ModelConfig upcycled_config(const ModelConfig& parent, const UpcycleOptions& options);

/// The directions of the rows of the routers' matrices, from the options and the scorer.
RouterDirections router_directions(const ModelConfig& config, const UpcycleOptions& options);

/// Whether the router is one matrix whose rows an upcycling can set. This is also true of a matrix
/// that an option freezes, and false of a scorer that is random by definition.
bool takes_rows(const ResolvedRouter& router);

/// Whether `start` is `parent` and the gates need not sum to one, so that the result only
/// approximates the parent's function.
bool measures_gate_sums(const ModelConfig& config, const UpcycleOptions& options);

}  // namespace penstock
