#include "penstock/convert/upcycle/started_routers.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cstddef>

#include "penstock/layers/moe.h"
#include "penstock/models/counts/model_tensors.h"

namespace penstock {
namespace {

void copy_tensors(const RouterTensors& from, Scorer& to) {
  for (const auto& item : to.named_parameters()) item.value().copy_(from.at(item.key()));
  for (const auto& item : to.named_buffers()) item.value().copy_(from.at(item.key()));
}

}  // namespace

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
    copy_tensors(routers[layer], router->scorer());
    router->start_balancers();
  }
  return out;
}

}  // namespace penstock
