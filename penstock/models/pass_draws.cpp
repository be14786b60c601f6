#include "penstock/models/pass_draws.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "penstock/base/random.h"

namespace penstock {

std::uint64_t next_bits(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

PassDraws::PassDraws(const RoutingContext& context) {
  if (context.generator) bits_ = next_bits(*context.generator);
}

RoutingContext PassDraws::of_layer(RoutingContext context, std::int64_t layer) const {
  if (bits_)
    context.generator =
        at::detail::createCPUGenerator(random_bits(*bits_, 0, static_cast<std::uint64_t>(layer)));
  return context;
}

}  // namespace penstock
