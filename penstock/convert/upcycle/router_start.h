// The routers that an upcycled model starts with: random ones, and Router Upcycling's, made of the
// parent's attention heads (head_mixture.h). How large their logits are is logit_scale.h's.
#pragma once

#include <vector>

#include "penstock/convert/conversion_progress.h"
#include "penstock/convert/upcycle/key_cache.h"
#include "penstock/convert/upcycle/router_tensors.h"
#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/convert/upcycle/upcycle_report.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// All layers' routers for a config; fills in the report what it decided. Of Router Upcycling's
/// `queries` are missing where nothing but the file wants them: query_maps() makes them.
/// Draws are functions of options.seed and the layer. With granularity, rows of the first E'
/// experts are repeated over the G virtual groups, so that whole sets of shards are chosen at
/// first. Throws Error for scorers that have no row per expert to repeat, and where calibration
/// text is missing.
std::vector<RouterTensors> router_starts(const ModelSource& parent, const ModelConfig& config,
                                         const UpcycleOptions& options, UpcycleReport& report,
                                         const KeyCache& keys = {},
                                         const ConversionProgress& progress = {});

}  // namespace penstock
