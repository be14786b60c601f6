// Upcycling: makes an MoE's directory from a dense model's. The feed-forwards become the experts;
// the routers are random or made of the attention heads. `penstock train` trains the MoE, `penstock
// doctor` checks it.
#pragma once

#include <string>

#include "penstock/base/file_system.h"
#include "penstock/convert/upcycle/key_cache.h"
#include "penstock/convert/upcycle/upcycle_options.h"
#include "penstock/convert/upcycle/upcycle_report.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// Writes the MoE model directory `out` atomically: config.json, model.safetensors, tokenizer
/// files, upcycling.json. Experts are the parent's feed-forwards (expert_tensor). Routers are F32.
/// All other tensors are copied bit for bit. The same arguments give the same files. Memory: the
/// whole parent if a text is read, otherwise one tensor at a time.
/// Throws Error if `out` exists, and as upcycled_config does. Without options.force, throws Error
/// if the model does not fit into memory or onto the disk (upcycled_size.h).
/// Source: Sparse Upcycling, arXiv:2212.05055; for routers see router_start.h.
/// @param keys  the cache of mean keys
UpcycleReport upcycle(const ModelSource& parent, const UpcycleOptions& options, FileSystem& fs,
                      const std::string& out, const KeyCache& keys = {},
                      const ConversionProgress& progress = {});

}  // namespace penstock
