// Denormal numbers count as zero while a fast path computes. A processor takes a hundred times as
// long for a product with a denormal number. Peaked attention and small gradients have many of
// them: a training run slowed to a tenth of its speed. This is not a setting of the process: the
// caller's mode is restored.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace penstock::ops::cpu {

/// While the object lives, this thread's operands and results below 2^-126 (f32) or 2^-1022 (f64)
/// count as 0. On x86 both operands and results do. On aarch64 the processor's FZ bit decides which
/// of them do. On other processors nothing changes.
class FlushDenormals {
 public:
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
#if defined(__SSE2__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }  // FTZ and DAZ
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#elif defined(__aarch64__)
  FlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    asm volatile("msr fpcr, %0" ::"r"(before_ | (std::uint64_t{1} << 24)));
  }
  ~FlushDenormals() { asm volatile("msr fpcr, %0" ::"r"(before_)); }

 private:
  std::uint64_t before_;
#else
  FlushDenormals() = default;
#endif
};

}  // namespace penstock::ops::cpu
