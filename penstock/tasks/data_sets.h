// The public data sets that hold the rows of tasks. penstock/data/fetch/fetch.h downloads them.
#pragma once

#include <string>
#include <vector>

namespace penstock::tasks {

/// The data sets for a name, each once: of a task or group of any protocol, its tasks' data sets;
/// of a data set, itself. Throws Error for an unknown name, with the nearest one, and for a task
/// whose rows are not published in a format that Penstock reads.
std::vector<std::string> data_sets_of(const std::string& name);

/// The data sets of all tasks.
std::vector<std::string> all_data_sets();

}  // namespace penstock::tasks
