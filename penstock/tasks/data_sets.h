// Which public data sets hold the rows of tasks; fetching them is penstock/data/fetch/fetch.h's
// matter.
#pragma once

#include <string>
#include <vector>

namespace penstock::tasks {

/// The data sets of the name, each once: a task or group of any protocol means those of its tasks;
/// a data set's name means itself. Throws Error for an unknown name, naming the nearest, and for a
/// task whose rows nobody publishes in a form that is read.
std::vector<std::string> data_sets_of(const std::string& name);

/// Those of all tasks.
std::vector<std::string> all_data_sets();

}  // namespace penstock::tasks
