// What a long preparation says while it works: a line for each stage, and one every few seconds
// within it.
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
  /// The stage's name and how much of it is done, where the last line is a while ago.
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
