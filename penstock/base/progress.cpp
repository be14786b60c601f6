#include "penstock/base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "penstock/base/joined.h"

namespace penstock {
namespace {

using std::chrono::steady_clock;
constexpr std::chrono::duration<double> terminal_interval(0.1), plain_interval(5.0);

constexpr std::size_t kAnyWidth = std::size_t{1} << 16;

/// The number of characters of UTF-8 text. Each character counts as one column.
std::size_t columns_needed(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; }));
}

}  // namespace

ProgressLine::ProgressLine(std::FILE* out)
    : out_(out), terminal_(out && isatty(fileno(out))), start_(steady_clock::now()) {}

ProgressLine::~ProgressLine() { finish(); }

bool ProgressLine::due() const {
  if (!out_) return false;
  const auto since = steady_clock::now() - (last_ == steady_clock::time_point{} ? start_ : last_);
  return since >= (terminal_ ? terminal_interval : plain_interval);
}

std::size_t ProgressLine::columns() const {
  winsize size{};
  if (!terminal_ || ioctl(fileno(out_), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return kAnyWidth;
  return size.ws_col - 1U;  // some terminals begin a new line after the last column
}

void ProgressLine::show(const std::string& text) {
  if (!out_) return;
  last_ = steady_clock::now();
  if (terminal_) {
    const std::string line = cut_to_width(text, columns());
    std::fprintf(out_, "\r\033[K%s", line.c_str());
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

void print_line(std::FILE* out, std::string_view text) {
  if (!out) return;
  std::fprintf(out, "%.*s\n", static_cast<int>(text.size()), text.data());
  std::fflush(out);
}

std::string fitted_line(std::vector<ProgressField> fields, std::size_t columns) {
  const auto rank = [](const ProgressField& field) {
    return field.shorter.empty() ? field.rank : field.shorter_rank;
  };
  while (true) {
    std::string line = joined(fields, "  ", &ProgressField::text);
    auto least = fields.end();
    for (auto field = fields.begin(); field != fields.end(); ++field)
      if (rank(*field) > 0 && (least == fields.end() || rank(*field) >= rank(*least)))
        least = field;
    if (columns_needed(line) <= columns || least == fields.end()) return line;
    if (least->shorter.empty())
      fields.erase(least);
    else
      least->text = std::exchange(least->shorter, "");
  }
}

std::string cut_to_width(std::string_view text, std::size_t columns) {
  while (columns_needed(text) > columns) {
    const auto border = text.rfind("  ");
    if (border == std::string_view::npos || border == 0) break;
    text = text.substr(0, text.find_last_not_of(' ', border) + 1);
  }
  while (columns_needed(text) > columns) text.remove_suffix(1);
  return std::string(text);
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
