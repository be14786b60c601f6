#include "penstock/base/checksum.h"

// Header-only, so that programs that link Penstock need not find libxxhash.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>

namespace penstock {

struct Xxh64::State {
  XXH64_state_t state;
};

Xxh64::Xxh64() : state_(std::make_unique<State>()) { XXH64_reset(&state_->state, 0); }
Xxh64::~Xxh64() = default;

void Xxh64::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH64_update(&state_->state, bytes.data(), bytes.size());
}

std::uint64_t Xxh64::value() const { return XXH64_digest(&state_->state); }

std::uint64_t xxh64(std::span<const std::byte> bytes) {
  return XXH64(bytes.data(), bytes.size(), 0);
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
