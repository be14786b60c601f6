// The names of a model's tensors in GGUF files, for reading and writing.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// The place of one of our tensors in a GGUF file.
struct GgufPlace {
  std::string tensor;        ///< "blk.3.ffn_up_exps.weight"
  std::int64_t expert = -1;  ///< index in a stacked tensor of all experts; -1: the whole tensor
};

/// The place of a decoder's tensor (models/formats/tensor_names.h). The name is empty if the format
/// has no such tensor, as for a router that is not one matrix.
///   model.layers.3.mlp.experts.5.up_proj.weight -> blk.3.ffn_up_exps.weight, expert 5
/// Source: the names of ggml's gguf.md and llama.cpp's converters.
GgufPlace gguf_place(const std::string& name);

}  // namespace penstock
