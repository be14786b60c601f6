// The progress lines of a long preparation: one for each stage, and one every few seconds within
// it.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <string_view>

namespace penstock {

class StageProgress {
 public:
  explicit StageProgress(const std::function<void(std::string_view)>& show) : show_(show) {}

  void say(std::string_view line) {
    last_ = Clock::now();
    if (show_) show_(line);
  }
  /// Shows the stage's name and its finished share, if the last line is at least 5 seconds old.
  void say_share(std::string_view stage, double share) {
    if (due()) say(fmt::format("{}: {:.0f} %", stage, 100 * share));
  }
  bool due() const { return Clock::now() - last_ >= std::chrono::seconds(5); }

 private:
  using Clock = std::chrono::steady_clock;
  const std::function<void(std::string_view)>& show_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace penstock
