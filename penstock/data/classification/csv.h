// Reads comma-separated values, quoted as in RFC 4180: a quoted field may hold commas, newlines and
// doubled quotes. It reads no other dialect.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

class CsvReader {
 public:
  /// @param file  the name in errors.  REQUIRES: `content` outlives the reader.
  CsvReader(std::string_view content, std::string file) : rest_(content), file_(std::move(file)) {}

  /// The next record's fields, or nothing at the end; empty lines are skipped.
  /// Throws Error, with file and line, for a quote that is never closed and for text between a
  /// closing quote and the next comma.
  std::optional<std::vector<std::string>> next();
  /// The line, from 1, on which the last record began.
  std::size_t line() const { return line_; }

 private:
  std::string field();
  std::string quoted_field();

  std::string_view rest_;
  std::string file_;
  std::size_t line_ = 0, next_line_ = 1;
};

}  // namespace penstock
