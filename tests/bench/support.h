// Recipes small enough for tests of the bench.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/train/read_recipe.h"

namespace penstock::testing {

/// 64 tokens in two micro-batches, 2 layers, d=16; four experts unless the method is "dense".
inline Recipe bench_recipe(const std::string& method, double k = 1) {
  ConfigNode node;
  node.set("name", "tiny-" + method);
  node.set("model.vocab", 32);
  node.set("model.d_model", 16);
  node.set("model.layers", 2);
  node.set("model.heads", 4);
  node.set("model.kv_heads", 2);
  node.set("model.d_ffn", 24);
  if (method != "dense") node.set("model.moe.experts", 4);
  node.set("model.router.method", method);
  node.set("model.router.k", k);
  node.set("train.batch_sequences", 4);
  node.set("train.micro_batch", 2);
  node.set("train.sequence_length", 16);
  node.set("run.threads", 1);
  return read_recipe(node);
}

/// A fixed bandwidth, because measuring one takes memory and seconds.
constexpr double kBandwidth = 1e10;

}  // namespace penstock::testing
