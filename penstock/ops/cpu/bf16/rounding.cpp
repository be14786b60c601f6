#include "penstock/ops/cpu/bf16/rounding.h"

#include <ATen/ATen.h>

#include "penstock/ops/cpu/bf16/native_rounding.h"
#include "penstock/ops/cpu/parallel.h"

namespace penstock::ops::bf16 {
namespace {

using Half16 = std::uint16_t __attribute__((vector_size(32)));

PENSTOCK_PER_CPU void round_lane_by_lane(std::int64_t n, const float* from, std::uint16_t* to) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const auto halves = __builtin_convertvector(round_lanes(cpu::load(from + i)) >> 16, Half16);
    std::memcpy(to + i, &halves, sizeof(halves));
  }
  if (i == n) return;
  cpu::Vec16 last{};
  std::memcpy(&last, from + i, sizeof(float) * (n - i));
  const auto halves = __builtin_convertvector(round_lanes(last) >> 16, Half16);
  std::memcpy(to + i, &halves, sizeof(std::uint16_t) * (n - i));
}

}  // namespace

void round_row(std::int64_t n, const float* from, std::uint16_t* to) {
  const NativeRounding* native = native_rounding();
  (native ? native->row : round_lane_by_lane)(n, from, to);
}

at::Tensor rounded(const at::Tensor& x) {
  at::Tensor out = at::empty(x.sizes(), x.options().dtype(at::kBFloat16));
  const float* from = x.data_ptr<float>();
  auto* to = static_cast<std::uint16_t*>(out.data_ptr());
  cpu::parallel_ranges(x.numel(), 16384, [=](std::int64_t begin, std::int64_t end) {
    round_row(end - begin, from + begin, to + begin);
  });
  return out;
}

}  // namespace penstock::ops::bf16
