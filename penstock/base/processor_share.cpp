#include "penstock/base/processor_share.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <system_error>
#include <utility>

namespace penstock {

ProcessorShare::ProcessorShare(std::filesystem::path tasks)
    : tasks_(std::move(tasks)), last_(read()) {}

std::map<std::string, ProcessorShare::Times> ProcessorShare::read() const {
  std::map<std::string, Times> out;
  std::error_code none;
  for (const auto& task : std::filesystem::directory_iterator(tasks_, none)) {
    std::ifstream in(task.path() / "schedstat");
    if (Times times; in >> times.running >> times.waiting)
      out[task.path().filename().string()] = times;
  }
  return out;
}

std::optional<double> ProcessorShare::look() {
  constexpr double least = 1e8;  // nanoseconds
  auto now = read();
  double running = 0, waiting = 0;
  for (const auto& [thread, times] : now) {
    const Times before = last_[thread];  // zero for a new one
    running += static_cast<double>(times.running - before.running);
    waiting += static_cast<double>(times.waiting - before.waiting);
  }
  if (running + waiting < least) return std::nullopt;
  last_ = std::move(now);
  return running / (running + waiting);
}

std::string busy_text(std::optional<double> share, int threads, int cores) {
  constexpr double usual = 0.75;
  if (!share || *share >= usual || threads > cores) return "";
  return "other programs use the processor: " + std::to_string(std::lround(100 * *share)) +
         " % of " + (threads == 1 ? "one core" : std::to_string(threads) + " cores") + " left";
}

std::string with_second_field(std::string text, const std::string& field) {
  if (!field.empty()) text.insert(std::min(text.find("  "), text.size()), "  " + field);
  return text;
}

}  // namespace penstock
