// Upcycling: a dense model's directory becomes an MoE's, its feed-forwards the experts, its routers
// random or made of its attention heads. `penstock train` trains it, `penstock doctor` checks
// it.
#pragma once

#include <string>

#include "penstock/base/file_system.h"
#include "penstock/convert/upcycle/key_cache.h"
#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/convert/upcycle/upcycle_report.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// Writes the MoE model directory `out`, complete or absent: config.json, model.safetensors,
/// tokenizer files, upcycling.json. Experts are the parent's feed-forwards (expert_tensor), all
/// else but the routers is copied bit for bit; routers are F32.
/// The same arguments give the same files. Memory: the parent as a model where text is read,
/// otherwise one tensor at a time.
/// Throws Error where `out` exists, for everything that upcycled_config refuses, and unless
/// options.force for what does not fit into memory or onto the disk (upcycled_size.h).
/// Source: Sparse Upcycling, arXiv:2212.05055; routers see router_start.h.
/// @param keys  where mean keys are kept
UpcycleReport upcycle(const ModelSource& parent, const UpcycleOptions& options, FileSystem& fs,
                      const std::string& out, const KeyCache& keys = {},
                      const ConversionProgress& progress = {});

}  // namespace penstock
