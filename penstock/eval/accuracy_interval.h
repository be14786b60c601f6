// The interval of a share of right answers. It is not the difference of two models over the same
// items (tasks/compare.h).
#pragma once

namespace penstock {

/// A 95 % interval.
struct AccuracyInterval {
  double low = 0, high = 0;
};

/// Wilson's 95 % interval of a share p of n independent items, with z = 1.96:
/// (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n).
/// Unlike p ± z √(p(1−p)/n), it has a length at p = 0 and p = 1, and it lies within 0 and 1.
/// @param p  from 0 to 1;  @param n  at least 1
AccuracyInterval accuracy_interval(double p, double n);

}  // namespace penstock
