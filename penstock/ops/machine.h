// What this machine's cores can do, measured: the yardstick of every "share of peak".
#pragma once

namespace penstock::ops {

/// fp32 fused multiply-adds per second times 2, over `threads` threads, in a register-only loop
/// with the widest vectors the processor has. Takes about `seconds`; the best of several short
/// bursts.
double measure_peak_flops(int threads, double seconds = 0.2);

/// Memory of the machine, in bytes.
double physical_memory_bytes();

/// Largest resident set of this process so far, in bytes.
double peak_resident_bytes();

}  // namespace penstock::ops
