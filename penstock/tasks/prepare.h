// Preparations: functions that add fields to a row, for the few tasks whose items templates cannot
// express. A task's form names one with `prepare`.
#pragma once

#include <string>

#include "penstock/tasks/template.h"

namespace penstock::tasks {

/// The row with the fields that the preparation adds; "" adds none. Throws Error if the row lacks
/// the fields that the preparation needs.
///   race-problems      from an article's `problems` (a list, or its text in Python's notation):
///                      `question`, `options` and `answer` of the last problem; `before` is the
///                      text of the earlier problems with their answers
///   race-problems-2.0  the same with the cloze questions of task version 2.0, which lack the stem
///   wsc-passage        `passage`: the text with *stars* around the second span
Row prepared(const std::string& preparation, Row row);

/// Throws Error unless there is a preparation of that name.
void check_preparation(const std::string& name, const std::string& origin);

}  // namespace penstock::tasks
