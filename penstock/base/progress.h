// A progress line for anything over two seconds: rewritten in place on a terminal, a line every few
// seconds elsewhere. The text is the caller's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

class ProgressLine {
 public:
  /// `out` may be null: nothing is shown.
  explicit ProgressLine(std::FILE* out);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Whether nothing is ever shown.
  bool silent() const { return !out_; }
  /// Whether a line takes the place of the one before.
  bool in_place() const { return terminal_; }
  /// Whether enough time has passed since the last line for another; lets callers skip formatting.
  bool due() const;
  /// Room for the text: a terminal's width, a large number elsewhere.
  std::size_t columns() const;
  /// On a terminal the text is cut to the width of a line, which could not be rewritten in place
  /// otherwise.
  void show(const std::string& text);
  /// Ends the line, so that other output starts on a fresh one, with `text` where given.
  void finish(const std::string& text = {});

 private:
  std::FILE* out_;
  bool terminal_ = false, open_ = false;
  std::chrono::steady_clock::time_point start_, last_{};
};

/// Writes a line at once. Where it cannot be written it is lost, and the work goes on: fmt::print
/// would throw.
/// @param out  null: nothing is written
void print_line(std::FILE* out, std::string_view text);

/// One thing that a line says.
struct ProgressField {
  std::string text;
  int rank = 0;              ///< the highest is left away first; 0: never
  std::string shorter = {};  ///< what stands in place of the text in a narrow line, if anything
  int shorter_rank = 0;      ///< when it does: as if the text were a field of that rank
};

/// The fields with two spaces between them. While they need more than `columns`, that of the
/// highest rank is shortened or left away, the later of two.
std::string fitted_line(std::vector<ProgressField> fields, std::size_t columns);
/// The text without as many of its last fields (two spaces stand between fields) as it takes to
/// need no more than `columns`; a first field that is too long is cut itself.
std::string cut_to_width(std::string_view text, std::size_t columns);
/// "1h02m", "3m20s", "12s".
std::string duration_text(double seconds);
/// Digits grouped by commas: 1,234,567.
std::string grouped(long long value);

}  // namespace penstock
