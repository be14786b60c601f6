// Quantised blocks against the numbers that blocks.py reads from them.
#include <gtest/gtest.h>

#include <cstring>

#include "penstock/io/ggml_type.h"
#include "penstock/io/k_blocks.h"
#include "tests/io/blocks_expected.h"

namespace penstock {
namespace {

std::vector<std::byte> bytes_of_hex(const std::string& hex) {
  std::vector<std::byte> out(hex.size() / 2);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = std::byte(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return out;
}

GgmlType type_named(const std::string& name) {
  for (std::uint32_t number = 0; number < 64; ++number)
    if (const auto type = find_ggml_type(number); type && ggml_type_name(*type) == name)
      return *type;
  ADD_FAILURE() << name;
  return GgmlType::kF32;
}

TEST(Blocks, HoldTheScriptsNumbersBitForBit) {
  for (const testing::BlocksCase& wanted : testing::kBlocks) {
    const GgmlType type = type_named(wanted.name);
    const auto blocks = bytes_of_hex(wanted.blocks), bits = bytes_of_hex(wanted.values);
    ASSERT_TRUE(is_quantised(type)) << wanted.name;
    ASSERT_EQ(blocks.size() / ggml_block(type).bytes * ggml_block(type).numbers,
              bits.size() / sizeof(float));
    std::vector<float> values(bits.size() / sizeof(float));
    dequantise(type, blocks, values);
    std::size_t differ = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      differ += std::memcmp(&values[i], &bits[i * sizeof(float)], sizeof(float)) != 0;
    EXPECT_EQ(differ, 0u) << wanted.name;
  }
}

TEST(Blocks, EveryQuantisedTypeHasACase) {
  std::size_t types = 0;
  for (std::uint32_t number = 0; number < 64; ++number)
    if (const auto type = find_ggml_type(number)) types += is_quantised(*type);
  EXPECT_EQ(types, testing::kBlocks.size());
}

TEST(Blocks, ScalesOfPartsComeBackFromTheirTwelveBytes) {
  KPartScales scales;
  for (int turn = 0; turn < 64; ++turn) {
    for (std::size_t p = 0; p < scales.scale.size(); ++p) {
      scales.scale[p] = static_cast<std::uint8_t>((turn * 37 + p * 11) % 64);
      scales.minimum[p] = static_cast<std::uint8_t>((turn * 29 + p * 23 + 5) % 64);
    }
    const KPartScales back = unpack_scales(pack_scales(scales));
    EXPECT_EQ(back.scale, scales.scale);
    EXPECT_EQ(back.minimum, scales.minimum);
  }
}

}  // namespace
}  // namespace penstock
