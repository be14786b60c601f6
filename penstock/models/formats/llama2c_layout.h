// The position of each tensor in a llama2.c checkpoint. This file handles bytes, not torch tensors;
// llama2c_source.h makes the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock {

struct Llama2cLayout {
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
    std::span<const std::byte> data;  ///< f32, in the file
  };
  std::int64_t d_model = 0, d_ffn = 0, layers = 0, heads = 0, kv_heads = 0, vocab = 0, context = 0;
  bool tied = true;
  std::vector<Tensor> tensors;
};

/// Reads the header and finds the tensors after it. The header is seven i32, little-endian: d, f,
/// layers, heads, key/value heads, vocabulary (negative: the head is not the embeddings), context.
/// Then f32 follow, in this order, each for all layers:
///   embeddings [V, d]; attention norms [L, d]; wq [L, d, d]; wk, wv [L, G·hd, d]; wo [L, d, d];
///   feed-forward norms [L, d]; w1 [L, f, d], the gate; w2 [L, d, f], down; w3 [L, f, d], up; last
///   norm [d]; cosines and sines of positions, [context, hd/2] each, which Penstock computes anew;
///   and the head [V, d] if it is not tied.
/// @param file  must outlive the result
/// @param path  the file's name in error messages
/// Throws Error for other versions, for impossible sizes, and if the file's length does not fit the
/// sizes.
Llama2cLayout llama2c_layout(std::span<const std::byte> file, const std::string& path);

}  // namespace penstock
