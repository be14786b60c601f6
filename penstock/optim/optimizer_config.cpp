#include "penstock/optim/optimizer_config.h"

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock {

void OptimizerConfig::complete(std::int64_t steps, const std::string& keys) {
  PENSTOCK_CHECK(beta1 < 1, keys, "beta1 = ", beta1, " must be below 1");
  PENSTOCK_CHECK(beta2 < 1, keys, "beta2 = ", beta2, " must be below 1");
  // An update computes in f32.
  PENSTOCK_CHECK(static_cast<float>(eps) > 0, keys, "eps = ", eps,
                 " must be above 0 in f32; give 1e-8");
  if (min_lr < 0) min_lr = lr / 10;
  PENSTOCK_CHECK(min_lr <= lr, keys, "min_lr = ", min_lr, " is above ", keys, "lr = ", lr);
  if (warmup_steps < 0) warmup_steps = std::max<std::int64_t>(1, steps / 100);
}

}  // namespace penstock
