#include "penstock/base/number_text.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"

namespace penstock {

std::string number_text(double value) {
  return value == std::floor(value) && std::fabs(value) < 1e15
             ? std::to_string(static_cast<std::int64_t>(value))
             : concat(value);
}

std::string size_text(double bytes) {
  constexpr double kKibibyte = 1 << 10, kMebibyte = 1 << 20, kGibibyte = 1 << 30;
  std::array<char, 64> text = {};
  if (bytes < kMebibyte)
    std::snprintf(text.data(), text.size(), "%.0f KiB", bytes / kKibibyte);
  else if (bytes < kGibibyte)
    std::snprintf(text.data(), text.size(), "%.0f MiB", bytes / kMebibyte);
  else
    std::snprintf(text.data(), text.size(), "%.1f GiB", bytes / kGibibyte);
  return text.data();
}

std::string count_text(std::int64_t count, std::string_view noun) {
  return concat(grouped(count), " ", noun, count == 1 ? "" : "s");
}

}  // namespace penstock
