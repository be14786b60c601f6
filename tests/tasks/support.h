// What tests of tasks share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/tasks/catalogue.h"
#include "penstock/tasks/items.h"

namespace penstock::tasks {

/// The message of the Error that the call throws.
template <class Call>
std::string error_text(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

/// Rows of JSON texts, in lines of "rows.jsonl".
inline std::vector<SourceRow> rows_of(const std::vector<std::string>& lines) {
  std::vector<SourceRow> out;
  for (const std::string& line : lines)
    out.push_back({.row = Row::parse(line), .where = concat("rows.jsonl:", out.size() + 1)});
  return out;
}

}  // namespace penstock::tasks
