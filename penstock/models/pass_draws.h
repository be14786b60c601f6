// The random numbers that a pass through a model draws for its layers' routers. Each layer has its
// own generator. So a layer's draws do not depend on how much the layers before it have drawn, nor
// on whether this process computes those layers.
#pragma once

#include <cstdint>
#include <optional>

#include "penstock/routers/routing.h"

namespace penstock {

/// The generator's next 64 bits.
std::uint64_t next_bits(at::Generator generator);

class PassDraws {
 public:
  /// Takes one number from the context's generator. If the context has no generator, the layers
  /// have none either.
  explicit PassDraws(const RoutingContext& context);
  /// The context of that layer's router. The router's draws are a function of the pass's number and
  /// the layer's index in the model.
  RoutingContext of_layer(RoutingContext context, std::int64_t layer) const;

 private:
  std::optional<std::uint64_t> bits_;
};

}  // namespace penstock
