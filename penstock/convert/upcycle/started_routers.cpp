#include "penstock/convert/upcycle/started_routers.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cstddef>

#include "penstock/layers/moe.h"
#include "penstock/models/counts/model_tensors.h"

namespace penstock {

StartedRouters started_routers(const std::vector<RouterTensors>& routers,
                               const ModelConfig& config) {
  const torch::NoGradGuard no_grad;
  StartedRouters out{.layers = {}, .balancers = balancers_of(config)};
  for (std::size_t layer = 0; layer < routers.size(); ++layer) {
    const MoeOptions options = config.moe_options(static_cast<std::int64_t>(layer));
    const auto& router = out.layers.emplace_back(
        std::make_shared<Router>(resolve(options.router), router_shape(options), out.balancers));
    router->scorer().share(out.layers.front()->scorer());
    router->to(at::kFloat);
    for (auto& [name, tensor] : tensors_of(router->scorer())) tensor.copy_(routers[layer].at(name));
    router->start_balancers();
  }
  return out;
}

}  // namespace penstock
