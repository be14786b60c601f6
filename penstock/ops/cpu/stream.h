// A copy that bypasses the caches.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace penstock::ops::cpu {

/// Copies n floats to memory that nobody will read soon. On x86 the copy neither fetches the
/// destination's cache lines before it overwrites them, nor takes them from another core's cache.
inline void stream(const float* from, std::int64_t n, float* to) {
#if defined(__SSE2__)
  std::int64_t i = 0;
  for (; i < n && reinterpret_cast<std::uintptr_t>(to + i) % 64 != 0; ++i) to[i] = from[i];
  for (; i + 16 <= n; i += 16)
    for (std::int64_t j = i; j < i + 16; j += 4) _mm_stream_ps(to + j, _mm_loadu_ps(from + j));
  for (; i < n; ++i) to[i] = from[i];
  _mm_sfence();
#else
  std::memcpy(to, from, sizeof(float) * n);
#endif
}

}  // namespace penstock::ops::cpu
