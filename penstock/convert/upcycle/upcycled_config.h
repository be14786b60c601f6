// The config of an upcycled model, and the options of an upcycling with its method's defaults
// filled in.
#pragma once

#include <string>

#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// The options with k and `start` filled in for the method. Calling it on its result changes
/// nothing. Throws Error for a method without a router.
UpcycleOptions completed(UpcycleOptions options);

/// Throws Error, which begins with `origin`, for a model that cannot be upcycled: one with experts
/// already, or with other feed-forwards than SwiGLU ones.
/// @param origin  the model's path
void check_can_upcycle(const ModelConfig& parent, const std::string& origin);

/// The config of the result. Throws Error for options that do not fit the method, the scorer or the
/// parent. REQUIRES: check_can_upcycle() accepts the parent (asserted).
ModelConfig upcycled_config(const ModelConfig& parent, const UpcycleOptions& options);

/// The directions of the rows of the routers' matrices, from the options and the scorer.
RouterDirections router_directions(const ModelConfig& config, const UpcycleOptions& options);

/// Whether the scorer is one matrix whose rows an upcycling can set. An option that freezes the
/// matrix does not matter. A scorer that is random by definition takes no rows.
bool takes_rows(const ResolvedRouter& router);

/// Whether `start` is `parent` and the gates need not sum to one, so that the result only
/// approximates the parent's function.
bool measures_gate_sums(const ModelConfig& config, const UpcycleOptions& options);

/// Whether a step of the upcycling reads the calibration text where one is given. Some of these
/// steps fail without a text.
bool takes_calibration(const ModelConfig& config, const UpcycleOptions& options);

}  // namespace penstock
