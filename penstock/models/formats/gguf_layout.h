// How GGUF files name a model's tensors, for reading and for writing.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// Where a tensor of ours lies in a GGUF file.
struct GgufPlace {
  std::string tensor;        ///< "blk.3.ffn_up_exps.weight"
  std::int64_t expert = -1;  ///< part of a tensor of all experts, stacked; -1: all of it
};

/// The place of a tensor of the decoder's (models/formats/tensor_names.h); an empty name where the
/// format has none, as for a router that is not one matrix.
///   model.layers.3.mlp.experts.5.up_proj.weight -> blk.3.ffn_up_exps.weight, expert 5
/// Source: the names of ggml's gguf.md and llama.cpp's converters.
GgufPlace gguf_place(const std::string& name);

}  // namespace penstock
