// Helpers of the tests of tasks.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "penstock/tasks/catalogue.h"
#include "penstock/tasks/items.h"
#include "tests/base/error_of.h"

namespace penstock::tasks {

using testing::error_of;

/// Rows made from JSON texts, as if they were lines of "rows.jsonl".
inline std::vector<SourceRow> rows_of(const std::vector<std::string>& lines) {
  std::vector<SourceRow> out;
  for (const std::string& line : lines)
    out.push_back({.row = Row::parse(line), .where = concat("rows.jsonl:", out.size() + 1)});
  return out;
}

}  // namespace penstock::tasks
