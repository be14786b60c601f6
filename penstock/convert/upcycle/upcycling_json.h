// upcycling.json: where an upcycled model comes from and how its routers were made.
#pragma once

#include <string>

#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/convert/upcycle/upcycle_report.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// The text of the file: parent, options, and per layer the groups of heads, their similarity map
/// and the number of tied keys that were broken apart by noise.
std::string upcycling_json(const ModelSource& parent, const UpcycleOptions& options,
                           const UpcycleReport& report);

}  // namespace penstock
