#include "penstock/ops/initial_draws.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <mutex>
#include <numbers>
#include <span>

#include "penstock/base/checksum.h"
#include "penstock/base/error.h"
#include "penstock/base/random.h"

namespace penstock {
namespace {

constexpr std::int64_t kGrain = 1 << 14;  // the fewest values for which a thread pays

struct Pair {
  float values[2];
};

/// Two draws from N(0, 1), computed from 64 random bits.
Pair normal_pair(std::uint64_t bits) {
  const float u = (static_cast<float>(bits >> 32) + 0.5f) * 0x1p-32f;  // (0, 1]
  const float v = static_cast<float>(bits & 0xffffffffU) * 0x1p-32f;   // [0, 1]
  const float radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::numbers::pi_v<float> * v;
  return {{radius * std::cos(angle), radius * std::sin(angle)}};
}

/// Fills `out` with the draws first .. first + out.size() − 1 of a stream.
void fill(std::span<float> out, std::uint64_t seed, std::uint64_t stream, std::uint64_t first) {
  std::size_t i = 0;
  while (i < out.size()) {
    const std::uint64_t at = first + i;
    const Pair pair = normal_pair(random_bits(seed, stream, at / 2));
    if (at % 2 == 0) out[i++] = pair.values[0];
    if (i < out.size()) out[i++] = pair.values[1];
  }
}

}  // namespace

InitialDraws InitialDraws::from_default_generator() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();  // a handle, not a copy
  const std::lock_guard lock(generator.mutex());
  return InitialDraws(at::check_generator<at::CPUGeneratorImpl>(generator)->random64());
}

InitialDraws InitialDraws::of(std::string_view module) const {
  return {seed_, path_ + std::string(module) + ".", slices_};
}

InitialDraws InitialDraws::within(Slices slices) const { return {seed_, path_, std::move(slices)}; }

void InitialDraws::normal(std::string_view name, const at::Tensor& tensor, double std, double mean,
                          std::int64_t first) const {
  PENSTOCK_ASSERT(first >= 0, "a part of a parameter begins at or after its first element");
  const torch::NoGradGuard no_grad;
  const std::string full = path_ + std::string(name);
  const Slice* const slice = slices_ ? slices_(full) : nullptr;
  if (slice && !slice->whole()) {
    const at::Tensor whole = at::empty(slice->shape, tensor.options().requires_grad(false));
    InitialDraws(seed_, path_, {}).normal(name, whole, std, mean);
    tensor.copy_(take(whole, *slice));
    return;
  }
  const std::uint64_t stream = xxh64(std::as_bytes(std::span(full)));
  const at::Tensor draws = at::empty(tensor.sizes(), at::kFloat);
  auto* const values = draws.data_ptr<float>();
  at::parallel_for(0, draws.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    fill({values + begin, static_cast<std::size_t>(end - begin)}, seed_, stream,
         static_cast<std::uint64_t>(first + begin));
  });
  tensor.copy_(draws.mul_(std).add_(mean));
}

}  // namespace penstock
