// Memory bandwidth by the triad a = b + s·c, and the size of the cache that its arrays must exceed.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <fstream>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base/stopwatch.h"
#include "penstock/ops/machine/machine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace penstock::ops {
namespace {

/// a[i] = b[i] + s·c[i]. Stores bypass the caches if the processor can do that, so that a cache
/// line is not read before it is overwritten. REQUIRES: pointers aligned to 64 bytes, count a
/// multiple of 16.
void triad(float* a, const float* b, const float* c, float s, std::int64_t count) {
#if defined(__x86_64__)
  const __m128 scale = _mm_set1_ps(s);
  for (std::int64_t i = 0; i < count; i += 4)
    _mm_stream_ps(a + i, _mm_add_ps(_mm_load_ps(b + i), _mm_mul_ps(scale, _mm_load_ps(c + i))));
  _mm_sfence();
#else
  for (std::int64_t i = 0; i < count; ++i) a[i] = b[i] + s * c[i];
#endif
}

double available_bytes() {
  std::ifstream in("/proc/meminfo");
  for (std::string word; in >> word;)
    if (double kib = 0; word == "MemAvailable:" && in >> kib) return 1024 * kib;
  return 4e9;
}

struct AlignedDelete {
  void operator()(float* p) const { ::operator delete[](p, std::align_val_t(64)); }
};
using Array = std::unique_ptr<float[], AlignedDelete>;

Array make_array(std::int64_t count) {
  return Array(static_cast<float*>(
      ::operator new[](sizeof(float) * static_cast<std::size_t>(count), std::align_val_t(64))));
}

}  // namespace

double last_level_cache_bytes() {
  double largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream in("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    double size = 0;
    char unit = 0;
    if (!(in >> size)) continue;
    in >> unit;
    largest = std::max(largest, size * (unit == 'K' ? 1024.0 : unit == 'M' ? 1048576.0 : 1.0));
  }
  return largest;
}

double measure_memory_bandwidth(int threads, double array_bytes) {
  const int count = std::max(1, threads);
  const double enough = std::max(256e6, 4 * last_level_cache_bytes());
  const double total = array_bytes > 0 ? array_bytes : std::min(enough, available_bytes() / 4);
  const std::int64_t piece =
      std::max<std::int64_t>(16, static_cast<std::int64_t>(total / 12 / count) / 16 * 16);
  const Array a = make_array(piece * count), b = make_array(piece * count),
              c = make_array(piece * count);
  const auto on_all = [&](auto&& work) {
    std::vector<std::jthread> pool;
    for (int t = 0; t < count; ++t) pool.emplace_back([&, t] { work(t * piece); });
  };
  on_all([&](std::int64_t first) {  // each thread touches its pages first
    std::fill_n(a.get() + first, piece, 0.0f);
    std::fill_n(b.get() + first, piece, 1.0f);
    std::fill_n(c.get() + first, piece, 2.0f);
  });
  // Each thread times short stretches while all threads run: they begin together, and what is timed
  // after the first of them has ended does not count. Few stretches are interrupted, because they
  // are short. The upper quartile leaves out the interrupted stretches and the few that a cache
  // served.
  std::vector<double> rates(static_cast<std::size_t>(count), 0);
  std::barrier all_begin(count);
  std::atomic<bool> one_ended{false};
  on_all([&](std::int64_t first) {
    std::vector<double> stretches;
    constexpr int rounds = 4;
    constexpr std::int64_t stretch = 1 << 17;
    all_begin.arrive_and_wait();
    for (int round = 0; round < rounds; ++round)
      for (std::int64_t i = first; i < first + piece; i += stretch) {
        const std::int64_t length = std::min(stretch, first + piece - i);
        const Stopwatch watch;
        triad(a.get() + i, b.get() + i, c.get() + i, 3.0f, length);
        const double seconds = watch.seconds();
        if (!one_ended || stretches.empty())
          stretches.push_back(12.0 * static_cast<double>(length) / seconds);
      }
    one_ended = true;
    std::ranges::sort(stretches);
    rates[static_cast<std::size_t>(first / piece)] = stretches[stretches.size() * 3 / 4];
  });
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

}  // namespace penstock::ops
