// The text of numbers that are not finite. On x86 the NaN of 0/0 has a meaningless sign, which
// would be printed: "-nan".
#pragma once

#include <cmath>
#include <limits>
#include <string>

namespace penstock {

/// The value itself, or for any NaN the one that is printed as "nan".
inline double plain_nan(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

/// The value in words: "not a number", "infinite" or "-infinite". REQUIRES: it is not finite.
inline std::string nonfinite_text(double value) {
  return std::isnan(value) ? "not a number" : value > 0 ? "infinite" : "-infinite";
}

}  // namespace penstock
