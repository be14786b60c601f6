#include "penstock/base/processor_share.h"

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
    const Times before = last_[thread];  // zero for a new thread
    running += static_cast<double>(times.running - before.running);
    waiting += static_cast<double>(times.waiting - before.waiting);
  }
  if (running + waiting < least) return std::nullopt;
  last_ = std::move(now);
  return running / (running + waiting);
}

std::optional<ProgressField> busy_field(std::optional<double> share, int threads, int cores) {
  constexpr double usual = 0.75;
  if (!share || *share >= usual || threads > cores) return std::nullopt;
  const std::string percent = std::to_string(std::lround(100 * *share));
  return ProgressField{.text = "other programs use the processor: " + percent + " % of " +
                               (threads == 1 ? "one core" : std::to_string(threads) + " cores") +
                               " left",
                       .rank = 1,
                       .shorter = "CPU " + percent + "%",
                       .shorter_rank = 99};
}

}  // namespace penstock
