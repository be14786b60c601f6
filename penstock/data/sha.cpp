// The two compression functions and the padding that they share.
#include "penstock/data/sha.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <vector>

#include "penstock/base/error.h"

namespace penstock {
namespace {

using ShaBlock = std::array<std::uint32_t, 16>;
using ShaState = std::array<std::uint32_t, 8>;  // SHA-1 uses five

constexpr std::array<std::uint32_t, 64> kSha256Rounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
constexpr ShaState kSha256Start = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr ShaState kSha1Start = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

void sha256_block(const ShaBlock& block, ShaState& state) {
  std::array<std::uint32_t, 64> w;
  std::ranges::copy(block, w.begin());
  for (std::size_t t = 16; t < 64; ++t) {
    const auto a = w[t - 15], b = w[t - 2];
    w[t] = w[t - 16] + w[t - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < 64; ++t) {
    const auto one = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                     ((e & f) ^ (~e & g)) + kSha256Rounds[t] + w[t];
    const auto two =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
  }
  const ShaState add = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < add.size(); ++i) state[i] += add[i];
}

void sha1_block(const ShaBlock& block, ShaState& state) {
  std::array<std::uint32_t, 80> w;
  std::ranges::copy(block, w.begin());
  for (std::size_t t = 16; t < 80; ++t)
    w[t] = std::rotl(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
  auto a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (std::size_t t = 0; t < 80; ++t) {
    const std::uint32_t f = t < 20   ? ((b & c) ^ (~b & d)) + 0x5a827999
                            : t < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                            : t < 60 ? ((b & c) ^ (b & d) ^ (c & d)) + 0x8f1bbcdc
                                     : (b ^ c ^ d) + 0xca62c1d6;
    const auto next = std::rotl(a, 5) + f + e + w[t];
    e = d, d = c, c = std::rotl(b, 30), b = a, a = next;
  }
  const std::array<std::uint32_t, 5> add = {a, b, c, d, e};
  for (std::size_t i = 0; i < add.size(); ++i) state[i] += add[i];
}

/// Takes bytes in pieces of any size.
class Sha {
 public:
  explicit Sha(ShaKind kind)
      : kind_(kind), state_(kind == ShaKind::kSha256 ? kSha256Start : kSha1Start) {}

  void update(std::span<const std::byte> bytes) {
    total_ += bytes.size();
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), tail_.size() - filled_);
      std::memcpy(tail_.data() + filled_, bytes.data(), count);
      filled_ += count;
      bytes = bytes.subspan(count);
      if (filled_ == tail_.size()) consume();
    }
  }

  /// Nothing may follow.
  std::string finish() {
    const std::uint64_t bits = total_ * 8;
    std::array<std::byte, 72> padding = {std::byte{0x80}};
    const std::size_t zeros = (filled_ < 56 ? 56 : 120) - filled_;
    for (std::size_t i = 0; i < 8; ++i)
      padding[zeros + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
    update(std::span(padding).first(zeros + 8));
    std::string out;
    for (std::size_t i = 0; i < (kind_ == ShaKind::kSha256 ? 8u : 5u); ++i)
      out += fmt::format("{:08x}", state_[i]);
    return out;
  }

 private:
  void consume() {
    ShaBlock block;
    for (std::size_t i = 0; i < 64; i += 4)
      block[i / 4] = std::to_integer<std::uint32_t>(tail_[i]) << 24 |
                     std::to_integer<std::uint32_t>(tail_[i + 1]) << 16 |
                     std::to_integer<std::uint32_t>(tail_[i + 2]) << 8 |
                     std::to_integer<std::uint32_t>(tail_[i + 3]);
    kind_ == ShaKind::kSha256 ? sha256_block(block, state_) : sha1_block(block, state_);
    filled_ = 0;
  }

  ShaKind kind_;
  ShaState state_;
  std::array<std::byte, 64> tail_;
  std::size_t filled_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace

const char* sha_name(ShaKind kind) { return kind == ShaKind::kSha256 ? "sha256" : "sha1"; }

std::string sha_of(std::span<const std::byte> bytes, ShaKind kind) {
  Sha sha(kind);
  sha.update(bytes);
  return sha.finish();
}

std::string sha_of_file(const std::string& path, ShaKind kind) {
  std::ifstream in(path, std::ios::binary);
  PENSTOCK_CHECK(in, "cannot read '", path, "': ", std::strerror(errno));
  Sha sha(kind);
  std::vector<char> buffer(1 << 20);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || in.gcount() > 0)
    sha.update(std::as_bytes(std::span(buffer).first(static_cast<std::size_t>(in.gcount()))));
  PENSTOCK_CHECK(!in.bad(), "cannot read '", path, "' to its end");
  return sha.finish();
}

}  // namespace penstock
