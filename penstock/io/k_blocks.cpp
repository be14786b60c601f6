#include "penstock/io/k_blocks.h"

#include "penstock/base/half.h"
#include "penstock/io/each_block.h"

namespace penstock {
namespace {

static_assert(sizeof(Q4KBlock) == 144 && sizeof(Q5KBlock) == 176 && sizeof(Q6KBlock) == 210);

using KCodes = std::array<std::uint8_t, kKBlock>;

KCodes four_bits(const std::array<std::uint8_t, kKBlock / 2>& packed) {
  KCodes out;
  for (std::size_t pair = 0; pair < kKBlock / (2 * kKPart); ++pair)
    for (std::size_t i = 0; i < kKPart; ++i) {
      const std::uint8_t byte = packed[pair * kKPart + i];
      out[2 * pair * kKPart + i] = byte & 15;
      out[(2 * pair + 1) * kKPart + i] = byte >> 4;
    }
  return out;
}

/// out_i = (scale · s_p) · code_i − minimum · m_p.
void spread(const KCodes& codes, const KPackedScales& packed, std::uint16_t scale,
            std::uint16_t minimum, std::span<float> out) {
  const KPartScales parts = unpack_scales(packed);
  const float by = f16_to_f32(scale), off = f16_to_f32(minimum);
  for (std::size_t p = 0; p < parts.scale.size(); ++p) {
    const float part_by = by * static_cast<float>(parts.scale[p]);
    const float part_off = off * static_cast<float>(parts.minimum[p]);
    for (std::size_t i = p * kKPart; i < (p + 1) * kKPart; ++i)
      out[i] = part_by * static_cast<float>(codes[i]) - part_off;
  }
}

}  // namespace

KPartScales unpack_scales(const KPackedScales& packed) {
  KPartScales out;
  for (std::size_t p = 0; p < 4; ++p) {
    out.scale[p] = packed[p] & 63;
    out.minimum[p] = packed[p + 4] & 63;
    out.scale[p + 4] = static_cast<std::uint8_t>((packed[p + 8] & 15) | (packed[p] >> 6) << 4);
    out.minimum[p + 4] = static_cast<std::uint8_t>(packed[p + 8] >> 4 | (packed[p + 4] >> 6) << 4);
  }
  return out;
}

KPackedScales pack_scales(const KPartScales& scales) {
  KPackedScales out;
  for (std::size_t p = 0; p < 4; ++p) {
    const std::uint8_t scale = scales.scale[p + 4], minimum = scales.minimum[p + 4];
    out[p] = static_cast<std::uint8_t>(scales.scale[p] | (scale >> 4) << 6);
    out[p + 4] = static_cast<std::uint8_t>(scales.minimum[p] | (minimum >> 4) << 6);
    out[p + 8] = static_cast<std::uint8_t>((scale & 15) | (minimum & 15) << 4);
  }
  return out;
}

void dequantise_q4_k(std::span<const std::byte> blocks, std::span<float> out) {
  each_block<Q4KBlock, kKBlock>(blocks, out, [](const Q4KBlock& block, std::span<float> to) {
    spread(four_bits(block.codes), block.parts, block.scale, block.minimum, to);
  });
}

void dequantise_q5_k(std::span<const std::byte> blocks, std::span<float> out) {
  each_block<Q5KBlock, kKBlock>(blocks, out, [](const Q5KBlock& block, std::span<float> to) {
    KCodes codes = four_bits(block.codes);
    for (std::size_t p = 0; p < kKBlock / kKPart; ++p)
      for (std::size_t i = 0; i < kKPart; ++i)
        codes[p * kKPart + i] |= static_cast<std::uint8_t>(((block.high[i] >> p) & 1) << 4);
    spread(codes, block.parts, block.scale, block.minimum, to);
  });
}

void dequantise_q6_k(std::span<const std::byte> blocks, std::span<float> out) {
  each_block<Q6KBlock, kKBlock>(blocks, out, [](const Q6KBlock& block, std::span<float> to) {
    const float by = f16_to_f32(block.scale);
    for (std::size_t number = 0; number < kKBlock; ++number) {
      const SixBitPlace place = six_bit_place(number);
      const int low = (block.low[place.low] >> place.low_shift) & 15;
      const int high = (block.high[place.high] >> place.high_shift) & 3;
      const float part = by * static_cast<float>(block.parts[number / kKSixBitPart]);
      to[number] = part * static_cast<float>(high * 16 + low - 32);
    }
  });
}

}  // namespace penstock
