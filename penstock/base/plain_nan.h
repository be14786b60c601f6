// A NaN without its sign: x86 makes 0/0 a negative one, which formats print as "-nan".
#pragma once

#include <cmath>
#include <limits>

namespace penstock {

/// The value, or the NaN that is printed as "nan".
inline double plain_nan(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

}  // namespace penstock
