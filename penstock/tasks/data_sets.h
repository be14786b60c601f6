// The public data sets that hold the rows of tasks. penstock/data/fetch/fetch.h downloads them.
#pragma once

#include <string>
#include <vector>

namespace penstock::tasks {

/// The data sets that a name means, each once. The name of a task or group, of any protocol, means
/// its tasks' data sets; a data set's name means itself. Throws Error for an unknown name, naming
/// the nearest. Throws Error for a task whose rows are not published in a format that can be read.
std::vector<std::string> data_sets_of(const std::string& name);

/// The data sets of all tasks.
std::vector<std::string> all_data_sets();

}  // namespace penstock::tasks
