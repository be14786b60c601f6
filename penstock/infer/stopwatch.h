// Measures elapsed time.
#pragma once

#include <chrono>

namespace penstock {

class Stopwatch {
 public:
  /// Seconds since construction.
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace penstock
