// The experts of single tokens in each layer, collected from the routing of a pass.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/layers/routing_tap.h"
#include "penstock/models/routing_choice.h"

namespace penstock {

struct ExpertShare {
  std::int64_t expert = 0;
  float weight = 0;
};

/// A layer's routing of one token.
struct LayerRouting {
  std::vector<ExpertShare> experts;  ///< by index of the expert
  std::vector<float> logits;         ///< [E], the scorer's; empty unless requested
};

/// A token's routing in each MoE layer.
using TokenRouting = std::vector<LayerRouting>;

/// Collects the routing of some rows of a pass.
class RoutingOfRows {
 public:
  struct Row {
    std::int64_t behind = 0;  ///< number of rows after it in the pass
    bool logits = false;      ///< whether its logits are collected too
  };
  /// @param scored  whether the model's routers compute logits (scores_tokens())
  RoutingOfRows(std::vector<Row> rows, bool scored);
  /// The observer for one pass. The layers stay empty if the router merges experts.
  RoutingTap tap();
  /// Moves out the routing of each row.
  std::vector<TokenRouting> take() { return std::move(routing_); }

 private:
  void add_experts(const Plan& plan);
  void add_logits(const at::Tensor& logits);

  std::vector<Row> rows_;
  bool scored_;
  std::vector<TokenRouting> routing_;
};

}  // namespace penstock
