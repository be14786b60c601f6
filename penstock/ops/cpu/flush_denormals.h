// Denormal numbers count as zero while a fast path computes. A processor takes a hundred times as
// long for a product with one, and peaked attention and small gradients are full of them: a
// training run slowed to a tenth. Not a setting of the process: the caller's mode comes back.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#endif

namespace penstock::ops::cpu {

/// While it lives, operands and results of this thread below 2^-126 (f32) or 2^-1022 (f64) are 0.
/// On x86 both; on aarch64 as the processor's FZ bit has it; elsewhere nothing changes.
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
