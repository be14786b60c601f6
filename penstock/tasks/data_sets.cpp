#include "penstock/tasks/data_sets.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/data/fetch/public_datasets.h"
#include "penstock/tasks/catalogue.h"

namespace penstock::tasks {
namespace {

void add_sets(const Task& task, std::vector<std::string>& out) {
  for (const std::string& set : task.data_sets)
    if (std::ranges::find(out, set) == out.end()) out.push_back(set);
}

/// The tasks of both protocols that a name stands for.
std::vector<Task> tasks_named(const std::string& name) {
  std::vector<Task> out;
  for (const TaskProtocol protocol : kTaskProtocols) {
    for (const Group& group : all_groups(protocol))
      if (group.name == name)
        for (Task& task : find_tasks(group.tasks, protocol)) out.push_back(std::move(task));
    for (Task& task : all_tasks(protocol))
      if (task.name == name) out.push_back(std::move(task));
  }
  return out;
}

[[noreturn]] void unknown(const std::string& name) {
  std::vector<std::string> known;
  for (const PublicDataset& set : public_datasets()) known.emplace_back(set.name);
  for (const TaskProtocol protocol : kTaskProtocols) {
    for (const Task& task : all_tasks(protocol)) known.push_back(task.name);
    for (const Group& group : all_groups(protocol)) known.push_back(group.name);
  }
  const std::string nearest = nearest_name(name, known);
  fail("no data set, task or group '", name, "' is known",
       nearest.empty() ? "; options.list shows them" : "; did you mean '" + nearest + "'?");
}

}  // namespace

std::vector<std::string> data_sets_of(const std::string& name) {
  std::vector<std::string> out;
  const std::vector<Task> tasks = tasks_named(name);
  for (const Task& task : tasks) add_sets(task, out);
  if (!out.empty()) return out;
  PENSTOCK_CHECK(tasks.empty(), "task ", name, ": nobody is known to publish its rows as JSON; ",
                 "docs/tasks.md says how to make ", tasks.front().files.front(), " of them");
  if (!is_public_dataset(name)) unknown(name);
  return {name};
}

std::vector<std::string> all_data_sets() {
  std::vector<std::string> out;
  for (const TaskProtocol protocol : kTaskProtocols)
    for (const Task& task : all_tasks(protocol)) add_sets(task, out);
  return out;
}

}  // namespace penstock::tasks
