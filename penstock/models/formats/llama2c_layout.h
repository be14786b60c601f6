// Where the tensors of a llama2.c checkpoint lie. The bytes alone, no tensors: the model that they
// make is llama2c_source.h's.
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

/// Reads the header and lays out what follows:
/// Seven i32, little-endian: d, f, layers, heads, key/value heads, vocabulary (negative: the head
/// is not the embeddings), context. Then f32, in this order, each for all layers:
///   embeddings [V, d]; attention norms [L, d]; wq [L, d, d]; wk, wv [L, G·hd, d]; wo [L, d, d];
///   feed-forward norms [L, d]; w1 [L, f, d], the gate; w2 [L, d, f], down; w3 [L, f, d], up; last
///   norm [d]; cosines and sines of positions [context, hd/2] each, which are computed anew; and
///   the head [V, d] where it is not tied.
/// @param file  must outlive the result
/// @param path  stands for the file in errors
/// Throws Error for other versions, sizes that are no model's, and a file of another length than
/// they give.
Llama2cLayout llama2c_layout(std::span<const std::byte> file, const std::string& path);

}  // namespace penstock
