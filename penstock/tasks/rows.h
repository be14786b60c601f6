// Reads the rows of a task's data from JSONL or a JSON list, compressed or not. The task decides
// what a row means.
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

/// The folder that holds a task's data: `directory`, or the folder of the task's own file if only
/// that has the data. `directory` may be "".
std::string data_folder(const Task& task, const std::string& directory);

/// The task's data file under `directory`: the first of its names that exists, also with ".gz"
/// appended. Throws Error with the names if none exists.
std::string find_data(const Task& task, const std::string& directory);
/// The same for the rows from which few-shot examples are drawn; "" if those are the task's own
/// rows.
std::string find_examples(const Task& task, const std::string& directory);

/// "; to get it: " and the command, or "" if no public data set is known for the task.
std::string how_to_fetch(const Task& task, const std::string& directory);

/// Reads the rows of a file with a JSON object in each line, or with one list of objects. Empty
/// lines are skipped. `labels` is a file with a label in each line, which becomes the field
/// "label". Throws Error with file and line for a line that is not an object, for a different
/// number of labels, and for a file without rows.
std::vector<SourceRow> read_rows(const std::string& path, const std::string& labels = {});

/// Parses one line as a row. Throws Error with `where` for a line that is not a JSON object.
SourceRow parse_row(std::string_view line, std::string where);

/// The labels file that belongs to the data file, or "" if there is none.
std::string labels_beside(const Task& task, const std::string& path);

/// A SHA-256 over the files below `directory` from which the task's items are made, and with
/// `examples` also over the files of their few-shot examples. Throws Error as find_data() and
/// find_examples() do.
std::string data_sum(const Task& task, const std::string& directory, bool examples);

}  // namespace penstock::tasks
