#include "penstock/data/classification/csv.h"

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock {

std::optional<std::vector<std::string>> CsvReader::next() {
  const auto at_line_end = [&] { return rest_.starts_with('\n') || rest_.starts_with("\r\n"); };
  const auto skip_line_end = [&] {
    rest_.remove_prefix(rest_.starts_with('\n') ? 1 : 2);
    ++next_line_;
  };
  while (at_line_end()) skip_line_end();
  if (rest_.empty()) return std::nullopt;
  line_ = next_line_;
  std::vector<std::string> fields;
  for (;;) {
    fields.push_back(rest_.starts_with('"') ? quoted_field() : field());
    if (rest_.starts_with(',')) {
      rest_.remove_prefix(1);
      continue;
    }
    if (at_line_end()) skip_line_end();
    return fields;
  }
}

std::string CsvReader::field() {
  std::size_t end = std::min(rest_.find_first_of(",\n"), rest_.size());
  if (end < rest_.size() && rest_[end] == '\n' && end > 0 && rest_[end - 1] == '\r') --end;
  std::string out(rest_.substr(0, end));
  rest_.remove_prefix(end);
  return out;
}

std::string CsvReader::quoted_field() {
  std::string out;
  rest_.remove_prefix(1);
  for (;;) {
    const auto quote = rest_.find('"');
    PENSTOCK_CHECK(quote != rest_.npos, file_, ":", line_,
                   ": a quoted field of this record is never closed (truncated?)");
    out += rest_.substr(0, quote);
    rest_.remove_prefix(quote + 1);
    if (!rest_.starts_with('"')) break;
    out += '"';
    rest_.remove_prefix(1);
  }
  next_line_ += static_cast<std::size_t>(std::ranges::count(out, '\n'));
  const bool ends = rest_.empty() || rest_.starts_with(',') || rest_.starts_with('\n') ||
                    rest_.starts_with("\r\n");
  PENSTOCK_CHECK(ends, file_, ":", next_line_,
                 ": text follows a closing quote; a quote inside a "
                 "field is written twice");
  return out;
}

}  // namespace penstock
