// How GGUF files name a model's parts, for reading and for writing: tensors, and the architectures
// that are known.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace penstock {

/// Where a tensor of ours lies in a GGUF file.
struct GgufPlace {
  std::string tensor;        ///< "blk.3.ffn_up_exps.weight"
  std::int64_t expert = -1;  ///< part of a tensor of all experts, stacked; -1: all of it
};

/// The place of a tensor of the decoder's (models/tensor_names.h); an empty name where the format
/// has none, as for a router that is not one matrix.
///   model.layers.3.mlp.experts.5.up_proj.weight -> blk.3.ffn_up_exps.weight, expert 5
/// Source: the names of ggml's gguf.md and llama.cpp's converters.
GgufPlace gguf_place(const std::string& name);

/// An architecture, as `general.architecture` names it, and what is particular to it.
struct GgufArchitecture {
  std::string_view name;
  bool rope_adjacent;   ///< rotates pairs (2i, 2i+1), else (i, i + hd/2)
  bool renormalises;    ///< gates of the kept experts are divided by their sum
  bool experts;         ///< has experts, or may have
  bool always_experts;  ///< has none but MoE layers
};

/// `llama` is Mixtral too. Sources: llama.cpp, the graphs of these four.
inline constexpr std::array<GgufArchitecture, 4> kGgufArchitectures = {
    {{"llama", true, true, true, false},
     {"qwen2", false, false, false, false},
     {"qwen2moe", false, false, true, true},
     {"olmoe", false, false, true, true}}};

/// The architecture of that name, or null.
const GgufArchitecture* find_gguf_architecture(std::string_view name);

}  // namespace penstock
