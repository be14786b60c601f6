// The tasks that are part of the program, by name and protocol, and the groups of tasks.
#pragma once

#include <string>
#include <vector>

#include "penstock/tasks/task.h"

namespace penstock::tasks {

/// Every task of the protocol, by name. Each name has a default version, which is used without "@".
std::vector<Task> all_tasks(TaskProtocol protocol);

/// The task "name" or "name@version". Throws Error for an unknown task; the error has the nearest
/// name, the existing versions, or the protocol that has the task.
Task find_task(const std::string& name, TaskProtocol protocol);

/// The tasks in a list of names and groups, each once.
std::vector<Task> find_tasks(const std::vector<std::string>& names, TaskProtocol protocol);

struct Group {
  std::string name;
  std::vector<std::string> tasks;
};
std::vector<Group> all_groups(TaskProtocol protocol);

}  // namespace penstock::tasks
