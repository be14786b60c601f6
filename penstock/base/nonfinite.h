// Words for numbers that are not finite. x86 gives the NaN of 0/0 a sign that means nothing, and
// printing shows it: "-nan".
#pragma once

#include <cmath>
#include <string>

namespace penstock {

/// "nan", "inf" or "-inf". REQUIRES: a value that is not finite.
inline std::string nonfinite_text(double value) {
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

}  // namespace penstock
