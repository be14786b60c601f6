// Recipes small enough for tests of the bench.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/train/read_recipe.h"

namespace penstock::testing {

/// 64 tokens in two micro-batches, 2 layers, d=16; four experts unless the method is "dense".
inline Recipe bench_recipe(const std::string& method, double k = 1) {
  ConfigNode node;
  const auto set = [&](const std::string& key, ConfigNode::Value value) {
    node.set(key, ConfigNode(std::move(value)));
  };
  set("name", "tiny-" + method);
  set("model.vocab", std::int64_t{32});
  set("model.d_model", std::int64_t{16});
  set("model.layers", std::int64_t{2});
  set("model.heads", std::int64_t{4});
  set("model.kv_heads", std::int64_t{2});
  set("model.d_ffn", std::int64_t{24});
  if (method != "dense") set("model.moe.experts", std::int64_t{4});
  set("model.router.method", method);
  set("model.router.k", k);
  set("train.batch_sequences", std::int64_t{4});
  set("train.micro_batch", std::int64_t{2});
  set("train.sequence_length", std::int64_t{16});
  set("run.threads", std::int64_t{1});
  return read_recipe(node);
}

/// A fixed bandwidth, because measuring one takes memory and seconds.
constexpr double kBandwidth = 1e10;

}  // namespace penstock::testing
