// Known answers: xxHash's own library (0.8.1) for the XXH64 table; RFC 3720, B.4, for CRC-32C.
#include "penstock/base/checksum.h"

#include <gtest/gtest.h>

#include <vector>

#include "penstock/base/file_system.h"

namespace penstock {
namespace {

std::vector<std::byte> pattern(std::size_t length) {
  std::vector<std::byte> out(length);
  for (std::size_t i = 0; i < length; ++i) out[i] = static_cast<std::byte>(i * 7 + 3);
  return out;
}

struct KnownHash {
  std::size_t length;
  std::uint64_t hash;
};
constexpr KnownHash kHashes[] = {
    {0, 0xef46db3751d8e999ULL},   {1, 0x1f25c8d0bc1f4bb6ULL},   {3, 0x31d2363f52e564c9ULL},
    {4, 0x9bb64b7d66ee9fdaULL},   {7, 0x9a7b149959ce60d8ULL},   {8, 0xdab99d95c6f90092ULL},
    {12, 0xd52e407833af5133ULL},  {31, 0xa2aa5f33cc4a6119ULL},  {32, 0x23c3c17ef790fd97ULL},
    {33, 0x50a7cfc7ba588784ULL},  {63, 0x5e3e54b431c7493cULL},  {64, 0x0eb64b3ef6eeb01fULL},
    {100, 0xa61f8d4c170fe531ULL}, {200, 0xa6cb3c09bc829b24ULL},
};

TEST(Xxh64, KnownAnswers) {
  for (const auto& [length, hash] : kHashes) EXPECT_EQ(xxh64(pattern(length)), hash) << length;
  EXPECT_EQ(xxh64(bytes_of("Nobody inspects the spammish repetition")), 0xfbcea83c8a378bf1ULL);
}

TEST(Xxh64, PiecesGiveTheSameHash) {
  const auto data = pattern(200);
  for (std::size_t piece = 1; piece <= 70; ++piece) {
    Xxh64 hash;
    for (std::size_t at = 0; at < data.size(); at += piece)
      hash.update(std::span(data).subspan(at, std::min(piece, data.size() - at)));
    EXPECT_EQ(hash.value(), 0xa6cb3c09bc829b24ULL) << piece;
  }
}

TEST(Crc32c, KnownAnswers) {
  std::vector<std::byte> zeros(32), ones(32, std::byte{0xff}), rising(32), falling(32);
  for (int i = 0; i < 32; ++i) {
    rising[i] = static_cast<std::byte>(i);
    falling[i] = static_cast<std::byte>(31 - i);
  }
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(zeros), 0x8a9136aau);
  EXPECT_EQ(crc32c(ones), 0x62a8ab43u);
  EXPECT_EQ(crc32c(rising), 0x46dd794eu);
  EXPECT_EQ(crc32c(falling), 0x113fdb5cu);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
}

}  // namespace
}  // namespace penstock
