#include "penstock/io/small_blocks.h"

#include "penstock/base/half.h"
#include "penstock/io/each_block.h"

namespace penstock {
namespace {

static_assert(sizeof(Q40Block) == 18 && sizeof(Q41Block) == 20 && sizeof(Q50Block) == 22 &&
              sizeof(Q51Block) == 24);

/// Unpacks codes of 4 bits. The first half of the codes is in the low bits.
std::array<int, kSmallBlock> codes_of(const SmallCodes& packed) {
  std::array<int, kSmallBlock> out;
  for (std::size_t i = 0; i < packed.size(); ++i) {
    out[i] = packed[i] & 15;
    out[i + packed.size()] = packed[i] >> 4;
  }
  return out;
}

/// Unpacks codes of 5 bits. Bit i of `high` is the highest bit of code i.
std::array<int, kSmallBlock> codes_of(const SmallCodes& packed, const SmallHighBits& high) {
  std::array<int, kSmallBlock> out = codes_of(packed);
  for (std::size_t i = 0; i < kSmallBlock; ++i) out[i] |= ((high[i / 8] >> (i % 8)) & 1) << 4;
  return out;
}

/// out_i = scale · (code_i − offset).
void spread(const std::array<int, kSmallBlock>& codes, int offset, std::uint16_t scale,
            std::span<float> out) {
  const float by = f16_to_f32(scale);
  for (std::size_t i = 0; i < kSmallBlock; ++i) out[i] = by * static_cast<float>(codes[i] - offset);
}

/// out_i = scale · code_i + minimum.
void spread_from(std::uint16_t minimum, const std::array<int, kSmallBlock>& codes,
                 std::uint16_t scale, std::span<float> out) {
  const float by = f16_to_f32(scale), from = f16_to_f32(minimum);
  for (std::size_t i = 0; i < kSmallBlock; ++i) out[i] = by * static_cast<float>(codes[i]) + from;
}

}  // namespace

void dequantise_q4_0(std::span<const std::byte> blocks, std::span<float> out) {
  each_block<Q40Block, kSmallBlock>(blocks, out, [](const Q40Block& block, std::span<float> to) {
    spread(codes_of(block.codes), 8, block.scale, to);
  });
}

void dequantise_q4_1(std::span<const std::byte> blocks, std::span<float> out) {
  each_block<Q41Block, kSmallBlock>(blocks, out, [](const Q41Block& block, std::span<float> to) {
    spread_from(block.minimum, codes_of(block.codes), block.scale, to);
  });
}

void dequantise_q5_0(std::span<const std::byte> blocks, std::span<float> out) {
  each_block<Q50Block, kSmallBlock>(blocks, out, [](const Q50Block& block, std::span<float> to) {
    spread(codes_of(block.codes, block.high), 16, block.scale, to);
  });
}

void dequantise_q5_1(std::span<const std::byte> blocks, std::span<float> out) {
  each_block<Q51Block, kSmallBlock>(blocks, out, [](const Q51Block& block, std::span<float> to) {
    spread_from(block.minimum, codes_of(block.codes, block.high), block.scale, to);
  });
}

}  // namespace penstock
