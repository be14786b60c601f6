#include "penstock/ops/cpu/bf16/amx_scope.h"

#include "penstock/base/error.h"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "penstock/ops/cpu/bf16/amx_block.h"

namespace penstock::ops::bf16 {
namespace {

/// The configuration of the tiles, in the format of `ldtilecfg`.
struct alignas(64) Configuration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr Configuration kConfiguration;
static_assert(sizeof(Configuration) == 64);

thread_local int scopes = 0;

PENSTOCK_AMX void configure() { _tile_loadconfig(&kConfiguration); }
PENSTOCK_AMX void release() { _tile_release(); }

/// Asks Linux for permission to use the tiles. Linux requires it, because the tiles are eight times
/// the state of the other registers.
bool permitted() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

AmxScope::AmxScope() {
  if (scopes++ == 0) configure();
}
AmxScope::~AmxScope() {
  if (--scopes == 0) release();
}

bool has_amx() {
  static const bool has =
      __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && permitted();
  return has;
}

}  // namespace penstock::ops::bf16

#else

namespace penstock::ops::bf16 {

AmxScope::AmxScope() { assertion_failed("has_amx()", "no AMX"); }
AmxScope::~AmxScope() = default;
bool has_amx() { return false; }

}  // namespace penstock::ops::bf16

#endif
