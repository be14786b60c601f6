#include "penstock/ops/machine/machine.h"

#include <sys/resource.h>
#include <unistd.h>
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base/stopwatch.h"
#include "penstock/base/threads.h"
#include "penstock/ops/cpu/bf16/amx_scope.h"
#include "penstock/ops/machine/large_pages.h"
#include "penstock/ops/machine/product_unit.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace penstock::ops {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int accumulators = 12;  // covers a latency of 4 on 2 ports and leaves registers free
constexpr int inner_rounds = 20000;

#if defined(__x86_64__)
__attribute__((target("avx512f"), noinline)) float burst_avx512() {
  __m512 sum[accumulators];
  const __m512 a = _mm512_set1_ps(0.999999f), b = _mm512_set1_ps(1e-6f);
  for (auto& s : sum) s = _mm512_set1_ps(1.0f);
  for (int i = 0; i < inner_rounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < accumulators; ++j) sum[j] = _mm512_fmadd_ps(sum[j], a, b);
  }
  for (int j = 1; j < accumulators; ++j) sum[0] = _mm512_add_ps(sum[0], sum[j]);
  return _mm512_reduce_add_ps(sum[0]);
}

__attribute__((target("avx512f,avx512bf16"), noinline)) float burst_bf16() {
  __m512 sum[accumulators];
  const __m512bh a = (__m512bh)_mm512_set1_epi32(0x3f7e3f7e);  // 0.99 twice
  const __m512bh b = (__m512bh)_mm512_set1_epi32(0x35863586);  // 1e-6 twice
  for (auto& s : sum) s = _mm512_set1_ps(1.0f);
  for (int i = 0; i < inner_rounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < accumulators; ++j) sum[j] = _mm512_dpbf16_ps(sum[j], a, b);
  }
  for (int j = 1; j < accumulators; ++j) sum[0] = _mm512_add_ps(sum[0], sum[j]);
  return _mm512_reduce_add_ps(sum[0]);
}

__attribute__((target("avx2,fma"), noinline)) float burst_avx2() {
  __m256 sum[accumulators];
  const __m256 a = _mm256_set1_ps(0.999999f), b = _mm256_set1_ps(1e-6f);
  for (auto& s : sum) s = _mm256_set1_ps(1.0f);
  for (int i = 0; i < inner_rounds; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < accumulators; ++j) sum[j] = _mm256_fmadd_ps(sum[j], a, b);
  }
  for (int j = 1; j < accumulators; ++j) sum[0] = _mm256_add_ps(sum[0], sum[j]);
  float lanes[8];
  _mm256_storeu_ps(lanes, sum[0]);
  return lanes[0];
}

// The number of tiles of sums, and the FLOPs of one tile product.
constexpr int amx_tiles = 4, amx_flops = 2 * 16 * 16 * 32;
constexpr int amx_rounds = inner_rounds / 10;

__attribute__((target("amx-tile,amx-bf16"), noinline)) float burst_amx() {
  const bf16::AmxScope scope;
  alignas(64) std::uint16_t factors[16][32];
  alignas(64) float sums[16][16];
  std::fill(&factors[0][0], &factors[0][0] + 16 * 32, std::uint16_t{0x3586});  // 1e-6
  asm volatile("" ::: "memory");  // the compiler does not see that tiles read `factors`
  _tile_loadd(4, factors, 64);
  _tile_loadd(5, factors, 64);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int i = 0; i < amx_rounds; ++i) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_stored(0, sums, 64);
  return sums[0][0];
}
#endif

constexpr int plain_lanes = 4;
__attribute__((noinline)) float burst_plain() {
  float sum[accumulators * plain_lanes];
  for (auto& s : sum) s = 1.0f;
  for (int i = 0; i < inner_rounds; ++i)
    for (auto& s : sum) s = s * 0.999999f + 1e-6f;
  float total = 0;
  for (const float s : sum) total += s;
  return total;
}

struct Burst {
  float (*run)();
  double flops;
};

Burst widest_burst(ProductPrecision precision) {
  const double per_lane = 2.0 * accumulators * inner_rounds;
#if defined(__x86_64__)
  if (precision == ProductPrecision::bf16 && available(ProductUnit::amx))
    return {burst_amx, 1.0 * amx_tiles * amx_flops * amx_rounds};
  if (precision == ProductPrecision::bf16 && available(ProductUnit::avx512))
    return {burst_bf16, 32 * per_lane};
  if (instruction_set() == InstructionSet::avx512) return {burst_avx512, 16 * per_lane};
  if (instruction_set() == InstructionSet::avx2) return {burst_avx2, 8 * per_lane};
#endif
  return {burst_plain, plain_lanes * per_lane};
}

}  // namespace

InstructionSet instruction_set() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return InstructionSet::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return InstructionSet::avx2;
#endif
  return InstructionSet::plain;
}

double measure_peak_flops(int threads, double seconds, ProductPrecision precision) {
  const Burst burst = widest_burst(precision);
  // Threads that share a core would each count the core's whole speed in the moments when they run.
  const int count = std::clamp(threads, 1, physical_cores());
  // Each thread times its own windows while all threads run. The sum of the threads' best windows
  // is the rate that the machine can hold.
  std::atomic<int> ready{0};
  std::vector<double> best(static_cast<std::size_t>(count), 0);
  const auto work = [&](std::size_t index) {
    volatile float sink = burst.run();
    ++ready;
    while (ready < count) std::this_thread::yield();
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (Clock::now() < end) {
      const Stopwatch watch;
      constexpr int bursts_per_window = 40;
      for (int i = 0; i < bursts_per_window; ++i) sink = sink + burst.run();
      best[index] = std::max(best[index], burst.flops * bursts_per_window / watch.seconds());
    }
  };
  std::vector<std::jthread> pool;
  for (int i = 0; i < count; ++i) pool.emplace_back(work, static_cast<std::size_t>(i));
  pool.clear();
  double total = 0;
  for (const double rate : best) total += rate;
  return total;
}

double peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kibibytes = 0; word == "VmHWM:" && status >> kibibytes) return 1024.0 * kibibytes;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

bool restart_peak_memory() {
#if __has_include(<malloc.h>)
  malloc_trim(0);
  regrow_heap_of_large_pages();
#endif
  std::ofstream reset("/proc/self/clear_refs");
  reset << "5" << std::flush;  // proc(5): the peak becomes the present size
  return reset.good();
}

}  // namespace penstock::ops
