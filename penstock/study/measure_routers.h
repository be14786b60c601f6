// A finished run's routers: entropy and sample tokens, at its checkpoint and before its first step.
#pragma once

#include <cstdio>
#include <string>

#include "penstock/base/config_node.h"
#include "penstock/study/router_report.h"

namespace penstock::study {

/// Measures the run's "final" or "best" checkpoint and the model that its training began with, on
/// the test split, or validation where there is none, read as the run's last evaluation reads it;
/// what docs/analysis.md says of `penstock analyse`. A dense model, and routers without logits,
/// give a report that says why it is empty. Throws Error where no such checkpoint is whole.
RouterReport measure_routers(const ConfigNode& resolved, const std::string& run_directory,
                             const std::string& checkpoint, std::FILE* progress);

}  // namespace penstock::study
