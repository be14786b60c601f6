// Measures elapsed time.
#pragma once

#include <chrono>

namespace penstock {

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class Stopwatch {
 public:
  /// Seconds since construction.
  double seconds() const { return seconds_since(begin_); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace penstock
