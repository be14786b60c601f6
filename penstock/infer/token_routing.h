// The experts of single tokens by layer, from a router's decisions for a pass.
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
  std::vector<ExpertShare> experts;  ///< in their order
  std::vector<float> logits;         ///< [E], the scorer's; empty unless asked for
};

/// [layers with experts]
using TokenRouting = std::vector<LayerRouting>;

/// Collects the experts of some rows of a pass.
class RoutingOfRows {
 public:
  /// A row of the pass, of which logits are wanted or not.
  struct Row {
    std::int64_t behind = 0;  ///< the number of rows behind it in the pass
    bool logits = false;
  };
  /// @param scored  whether the model's logits say anything (scores_tokens())
  RoutingOfRows(std::vector<Row> rows, bool scored);
  /// The observer for one pass. It collects nothing from a router that blends experts by segments.
  RoutingTap tap();
  /// The routing of each row.
  std::vector<TokenRouting> take() { return std::move(routing_); }

 private:
  void add_experts(const Plan& plan);
  void add_logits(const at::Tensor& logits);

  std::vector<Row> rows_;
  bool scored_;
  std::vector<TokenRouting> routing_;
};

}  // namespace penstock
