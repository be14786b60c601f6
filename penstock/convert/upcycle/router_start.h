// Makes the routers that an upcycled model starts with: random routers, or Router Upcycling's,
// which are made of the parent's attention heads (head_mixture.h). logit_scale.h scales their
// logits.
#pragma once

#include <vector>

#include "penstock/convert/conversion_progress.h"
#include "penstock/convert/upcycle/key_cache.h"
#include "penstock/convert/upcycle/router_tensors.h"
#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/convert/upcycle/upcycle_report.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// Makes all layers' routers for a config, and records its decisions in the report. Router
/// Upcycling's routers lack `queries` if only the file needs them; query_maps() makes those. Draws
/// depend on options.seed and the layer. With granularity, the rows of the first E' experts are
/// repeated over the G virtual groups, so that at first all shards of a feed-forward are chosen
/// together. Throws Error for scorers without a row per expert, and if the calibration text is
/// missing.
std::vector<RouterTensors> router_starts(const ModelSource& parent, const ModelConfig& config,
                                         const UpcycleOptions& options, UpcycleReport& report,
                                         const KeyCache& keys = {},
                                         const ConversionProgress& progress = {});

}  // namespace penstock
