// Measures this machine's peak speed. Every "share of peak" is relative to it.
#pragma once

#include <array>
#include <string_view>

#include "penstock/ops/machine/precision.h"

namespace penstock::ops {

/// Peak FLOPs per second, two for each fused multiply-add, of a register-only loop with the widest
/// vectors of the processor. It uses `threads` threads, but at most one a core, and takes about
/// `seconds`. Returns the best of several short bursts.
/// @param precision  of the factors. bf16: bf16 with sums in f32, if the processor has that, else
/// fp32
double measure_peak_flops(int threads, double seconds = 0.2,
                          ProductPrecision precision = ProductPrecision::fp32);

/// The widest vectors of a processor. plain: the vectors that every processor has.
enum class InstructionSet { plain, avx2, avx512 };
constexpr std::array<std::string_view, 3> words(InstructionSet) {
  return {"plain", "avx2", "avx512"};
}

/// The widest vectors of this processor, which measure_peak_flops and the kernels use.
InstructionSet instruction_set();

/// Bytes per second of the triad a = b + s·c (two reads and one write per element) over `threads`
/// threads that run together. Each thread times short stretches. Returns the sum of the threads'
/// upper quartiles.
/// @param array_bytes  of the three arrays together; 0: four times the last cache (at least 256
/// MB), or a quarter of the free memory if that is less
double measure_memory_bandwidth(int threads, double array_bytes = 0);

/// The size of the first processor's largest cache; 0 if the system does not say.
double last_level_cache_bytes();

/// Largest resident set of this process, in bytes, since it began or since the last
/// restart_peak_memory().
double peak_resident_bytes();

/// Gives freed memory back and restarts the measure of peak_resident_bytes(), so that each of
/// several runs in one process has its own peak. Returns false, and does not restart the measure,
/// if the system does not allow it (no writable /proc/self/clear_refs).
bool restart_peak_memory();

}  // namespace penstock::ops
