#include "penstock/optim/optimizer_config.h"

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock {

void OptimizerConfig::complete(std::int64_t steps, const std::string& keys) {
  PENSTOCK_CHECK(beta1 < 1 && beta2 < 1 && eps > 0, keys, "beta1 and ", keys,
                 "beta2 must be below 1 and ", keys, "eps above 0");
  if (min_lr < 0) min_lr = lr / 10;
  PENSTOCK_CHECK(min_lr <= lr, keys, "min_lr = ", min_lr, " is above ", keys, "lr = ", lr);
  if (warmup_steps < 0) warmup_steps = std::max<std::int64_t>(1, steps / 100);
}

}  // namespace penstock
