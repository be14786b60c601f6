// Words for numbers that are not finite. x86 gives the NaN of 0/0 a sign that means nothing, and
// printing shows it: "-nan".
#pragma once

#include <cmath>
#include <limits>
#include <string>

namespace penstock {

/// The value, or the NaN that is printed as "nan".
inline double plain_nan(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

/// The value in words: "not a number", "infinite" or "-infinite". REQUIRES: it is not finite.
inline std::string nonfinite_text(double value) {
  return std::isnan(value) ? "not a number" : value > 0 ? "infinite" : "-infinite";
}

}  // namespace penstock
