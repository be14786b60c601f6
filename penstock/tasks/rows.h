// Rows of a task's data, from JSONL, a JSON list, or either compressed. What a row means is its
// task's business.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "penstock/tasks/task.h"

namespace penstock::tasks {

struct SourceRow {
  Row row;
  std::string where;  ///< "file.jsonl:12", for errors
};

/// Where a task's data are sought: in `directory`, or beside the task's own file where that has
/// them and the directory, which may be "", has not.
std::string data_folder(const Task& task, const std::string& directory);

/// The file of the task's data under `directory`: the first of its names that is there, also with
/// .gz behind it. Throws Error that says which names it looked for.
std::string find_data(const Task& task, const std::string& directory);
/// The same of the rows that its few-shot examples are drawn from; "" where these are the task's
/// own.
std::string find_examples(const Task& task, const std::string& directory);

/// "; to get it: " and the command, or "" where no public data set is known for the task.
std::string how_to_fetch(const Task& task, const std::string& directory);

/// The rows of a file of JSON objects, one a line, or of one list of objects; empty lines are
/// passed over. `labels` names a file with one label a line, which become the field "label".
/// Throws Error with file and line for a line that is no object, for labels of another number, and
/// for a file without rows.
std::vector<SourceRow> read_rows(const std::string& path, const std::string& labels = {});

/// One line as a row. Throws Error with `where` for a line that is no JSON object.
SourceRow parse_row(std::string_view line, std::string where);

/// The labels file that belongs to the data file, or "" where the task has none.
std::string labels_beside(const Task& task, const std::string& path);

/// A SHA-256 of the files below `directory` that the task's items are made of, and with `examples`
/// their few-shot examples. Throws Error as find_data and find_examples do.
std::string data_sum(const Task& task, const std::string& directory, bool examples);

}  // namespace penstock::tasks
