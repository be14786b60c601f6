// Preparations: functions from row to row that add fields, for the few tasks whose rows templates
// cannot express. A task's form names one with `prepare`.
#pragma once

#include <string>

#include "penstock/tasks/template.h"

namespace penstock::tasks {

/// The row with the fields that the preparation adds; "" adds none. Throws Error if the row lacks
/// the fields that the preparation needs.
///   race-problems      `problems` (a list, or its text in Python's notation) of an article: the
///   last
///                      one's fields become `question`, `options` and `answer`; `before` is the
///                      text of those before it, with their answers
///   race-problems-2.0  the same with the cloze questions of task version 2.0, whose stem is lost
///   wsc-passage        `passage`: the text with *stars* around the second span
Row prepared(const std::string& preparation, Row row);

/// Throws Error unless there is a preparation of that name.
void check_preparation(const std::string& name, const std::string& origin);

}  // namespace penstock::tasks
