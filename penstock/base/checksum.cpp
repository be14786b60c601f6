#include "penstock/base/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace penstock {
namespace {

constexpr std::uint64_t kPrime1 = 0x9e3779b185ebca87ULL;
constexpr std::uint64_t kPrime2 = 0xc2b2ae3d27d4eb4fULL;
constexpr std::uint64_t kPrime3 = 0x165667b19e3779f9ULL;
constexpr std::uint64_t kPrime4 = 0x85ebca77c2b2ae63ULL;
constexpr std::uint64_t kPrime5 = 0x27d4eb2f165667c5ULL;

static_assert(std::endian::native == std::endian::little, "files are read and written as they lie");

template <class T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

std::uint64_t mix_lane(std::uint64_t lane, std::uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

}  // namespace

void Xxh64::stripe(const std::byte* bytes) {
  for (std::size_t i = 0; i < 4; ++i)
    lanes_[i] = mix_lane(lanes_[i], load<std::uint64_t>(bytes + 8 * i));
}

void Xxh64::update(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const std::size_t held = total_ % 32;
  total_ += bytes.size();
  if (held) {
    const std::size_t taken = std::min(bytes.size(), 32 - held);
    std::memcpy(tail_.data() + held, bytes.data(), taken);
    if (held + taken < 32) return;
    stripe(tail_.data());
    bytes = bytes.subspan(taken);
  }
  for (; bytes.size() >= 32; bytes = bytes.subspan(32)) stripe(bytes.data());
  if (!bytes.empty()) std::memcpy(tail_.data(), bytes.data(), bytes.size());
}

std::uint64_t Xxh64::value() const {
  std::uint64_t hash = kPrime5;
  if (total_ >= 32) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (const auto lane : lanes_) hash = (hash ^ mix_lane(0, lane)) * kPrime1 + kPrime4;
  }
  hash += total_;
  const std::byte* at = tail_.data();
  std::size_t left = total_ % 32;
  for (; left >= 8; left -= 8, at += 8)
    hash = std::rotl(hash ^ mix_lane(0, load<std::uint64_t>(at)), 27) * kPrime1 + kPrime4;
  if (left >= 4) {
    hash = std::rotl(hash ^ load<std::uint32_t>(at) * kPrime1, 23) * kPrime2 + kPrime3;
    left -= 4;
    at += 4;
  }
  for (; left > 0; --left, ++at)
    hash = std::rotl(hash ^ std::to_integer<std::uint64_t>(*at) * kPrime5, 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

std::uint64_t xxh64(std::span<const std::byte> bytes) {
  Xxh64 hash;
  hash.update(bytes);
  return hash.value();
}

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> out{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82f63b78u : 0u);
      out[i] = value;
    }
    return out;
  }();
  std::uint32_t crc = ~0u;
  for (const auto byte : bytes)
    crc = (crc >> 8) ^ table[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
  return ~crc;
}

}  // namespace penstock
