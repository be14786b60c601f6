// The experts of single tokens, layer by layer, out of what a router decided for a pass.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/layers/routing_tap.h"

namespace penstock {

struct ExpertShare {
  std::int64_t expert = 0;
  float weight = 0;
};

/// [layers with experts][experts of the token, in their order]
using TokenRouting = std::vector<std::vector<ExpertShare>>;

/// Collects the experts of some rows of a pass.
class RoutingOfRows {
 public:
  /// @param rows  of the pass, ascending
  explicit RoutingOfRows(std::vector<std::int64_t> rows);
  /// What watches the pass. Of a router that blends experts by segments nothing is collected.
  RoutingTap tap();
  /// Of each of the rows.
  std::vector<TokenRouting> take() { return std::move(routing_); }

 private:
  void add(const Plan& plan);

  std::vector<std::int64_t> rows_;
  std::vector<TokenRouting> routing_;
};

}  // namespace penstock
