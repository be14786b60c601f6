// A progress line for work that takes over two seconds. On a terminal it is rewritten in place;
// elsewhere a new line is written every few seconds. The caller gives the text.
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
  /// If `out` is null, nothing is shown.
  explicit ProgressLine(std::FILE* out);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Whether nothing is ever shown.
  bool silent() const { return !out_; }
  /// Whether each line is written over the previous one.
  bool in_place() const { return terminal_; }
  /// Whether enough time has passed since the last line to write another. Lets callers skip
  /// formatting.
  bool due() const;
  /// The greatest width of the text: the terminal's width, or a large number elsewhere.
  std::size_t columns() const;
  /// Writes the text. On a terminal it is cut to the width of a line, since a longer text could not
  /// be rewritten in place.
  void show(const std::string& text);
  /// Ends the line, so that other output starts on a new line. Writes `text` first, if given.
  void finish(const std::string& text = {});

 private:
  std::FILE* out_;
  bool terminal_ = false, open_ = false;
  std::chrono::steady_clock::time_point start_, last_{};
};

/// Writes a line at once. A line that cannot be written is lost and the program goes on, whereas
/// fmt::print would throw.
/// @param out  null: nothing is written
void print_line(std::FILE* out, std::string_view text);

/// One field of a progress line.
struct ProgressField {
  std::string text;
  int rank = 0;              ///< the highest rank is dropped first; 0: never dropped
  std::string shorter = {};  ///< replaces the text in a narrow line; "": no shorter form
  int shorter_rank = 0;      ///< the rank at which `shorter` replaces the text
};

/// Joins the fields with two spaces. While the line is wider than `columns`, shortens or drops the
/// field with the highest rank; of fields with the same rank, the last one.
std::string fitted_line(std::vector<ProgressField> fields, std::size_t columns);
/// Drops the last fields (separated by two spaces) until the text fits `columns`. A first field
/// that is too long is cut.
std::string cut_to_width(std::string_view text, std::size_t columns);
/// "1h02m", "3m20s", "12s".
std::string duration_text(double seconds);
/// Digits grouped by commas: 1,234,567.
std::string grouped(long long value);

}  // namespace penstock
