// A server's metrics in Prometheus's format.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "penstock/serve/service.h"

namespace penstock::serve {

/// A histogram of seconds: the number of values below each bound.
class SecondsHistogram {
 public:
  static constexpr std::array<double, 10> kBounds = {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300};
  void add(double seconds);
  /// The metric's lines, with its help.
  std::string text(const std::string& name, const std::string& help) const;

 private:
  std::array<std::int64_t, kBounds.size()> below_{};
  std::int64_t count_ = 0;
  double sum_ = 0;
};

class Metrics {
 public:
  /// Counts an answer by path and status.
  void answered(const std::string& path, int status);
  void first_token_after(double seconds);
  void whole_after(double seconds);
  /// Counts a client that left before its answer was complete.
  void left();
  /// The text of GET /metrics.
  std::string text(const ServiceState& state) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::int64_t> answered_;
  SecondsHistogram first_token_, whole_;
  std::int64_t left_ = 0;
};

}  // namespace penstock::serve
