// Comma-separated values, quoted as in RFC 4180: a quoted field may hold commas, newlines and
// doubled quotes. No other dialect.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

/// Yields one record after another.
class CsvReader {
 public:
  /// `file` is for errors. The content must outlive the reader.
  CsvReader(std::string_view content, std::string file) : rest_(content), file_(std::move(file)) {}

  /// The next record's fields, or nothing at the end; empty lines are passed over.
  /// Throws Error, with file and line, for a quote that is never closed and for what follows one.
  std::optional<std::vector<std::string>> next();
  /// The line, from 1, that the last record began on.
  std::size_t line() const { return line_; }

 private:
  std::string field();
  std::string quoted_field();

  std::string_view rest_;
  std::string file_;
  std::size_t line_ = 0, next_line_ = 1;
};

}  // namespace penstock
