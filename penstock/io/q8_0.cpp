#include "penstock/io/q8_0.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "penstock/base/error.h"
#include "penstock/base/half.h"

namespace penstock {

void quantise_q8_0(std::span<const float> values, std::span<std::byte> out) {
  PENSTOCK_ASSERT(values.size() % kQ8Block == 0 &&
                  out.size() == values.size() / kQ8Block * kQ8BlockBytes);
  for (; !values.empty(); values = values.subspan(kQ8Block), out = out.subspan(kQ8BlockBytes)) {
    float largest = 0;
    for (const float x : values.first(kQ8Block)) {
      PENSTOCK_CHECK(std::isfinite(x), "a number that is not finite cannot be stored as Q8_0");
      largest = std::max(largest, std::fabs(x));
    }
    const float scale = largest / 127.0f;
    const std::uint16_t stored = f32_to_f16(scale);
    PENSTOCK_CHECK((stored & 0x7c00u) != 0x7c00u, "a number of size ", largest,
                   " is beyond what Q8_0 can scale; store the model as F32");
    const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
    std::memcpy(out.data(), &stored, sizeof stored);
    for (std::size_t i = 0; i < kQ8Block; ++i)
      out[sizeof stored + i] = std::byte(
          static_cast<std::uint8_t>(static_cast<std::int8_t>(std::round(values[i] * inverse))));
  }
}

void dequantise_q8_0(std::span<const std::byte> blocks, std::span<float> out) {
  PENSTOCK_ASSERT(out.size() % kQ8Block == 0 &&
                  blocks.size() == out.size() / kQ8Block * kQ8BlockBytes);
  for (; !out.empty(); out = out.subspan(kQ8Block), blocks = blocks.subspan(kQ8BlockBytes)) {
    std::uint16_t stored = 0;
    std::memcpy(&stored, blocks.data(), sizeof stored);
    const float scale = f16_to_f32(stored);
    for (std::size_t i = 0; i < kQ8Block; ++i)
      out[i] = scale * static_cast<float>(static_cast<std::int8_t>(blocks[sizeof stored + i]));
  }
}

}  // namespace penstock
