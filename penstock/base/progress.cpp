#include "penstock/base/progress.h"

#include <unistd.h>

#include <cmath>

namespace penstock {
namespace {

using std::chrono::steady_clock;
constexpr std::chrono::duration<double> terminal_interval(0.1), plain_interval(5.0);

}  // namespace

ProgressLine::ProgressLine(std::FILE* out)
    : out_(out), terminal_(out && isatty(fileno(out))), start_(steady_clock::now()) {}

ProgressLine::~ProgressLine() { finish(); }

bool ProgressLine::due() const {
  if (!out_) return false;
  const auto since = steady_clock::now() - (last_ == steady_clock::time_point{} ? start_ : last_);
  return since >= (terminal_ ? terminal_interval : plain_interval);
}

void ProgressLine::show(const std::string& text) {
  if (!out_) return;
  last_ = steady_clock::now();
  if (terminal_) {
    std::fprintf(out_, "\r\033[K%s", text.c_str());
    open_ = true;
  } else {
    std::fprintf(out_, "%s\n", text.c_str());
  }
  std::fflush(out_);
}

void ProgressLine::finish(const std::string& text) {
  if (!out_) return;
  if (!text.empty()) {
    std::fprintf(out_, terminal_ ? "\r\033[K%s\n" : "%s\n", text.c_str());
  } else if (open_) {
    std::fputc('\n', out_);
  }
  open_ = false;
  std::fflush(out_);
}

std::string duration_text(double seconds) {
  const auto total = static_cast<long long>(std::llround(std::fmax(0, seconds)));
  char text[48];
  if (total >= 3600)
    std::snprintf(text, sizeof text, "%lldh%02lldm", total / 3600, total / 60 % 60);
  else if (total >= 60)
    std::snprintf(text, sizeof text, "%lldm%02llds", total / 60, total % 60);
  else
    std::snprintf(text, sizeof text, "%llds", total);
  return text;
}

std::string grouped(long long value) {
  std::string digits = std::to_string(value < 0 ? -value : value);
  for (auto i = static_cast<long long>(digits.size()) - 3; i > 0; i -= 3)
    digits.insert(static_cast<std::size_t>(i), ",");
  return (value < 0 ? "-" : "") + digits;
}

}  // namespace penstock
