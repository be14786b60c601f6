// The tasks that are part of the program, by name and protocol, and the groups of them.
#pragma once

#include <string>
#include <vector>

#include "penstock/tasks/task.h"

namespace penstock::tasks {

/// Every task of the protocol, by name; a name has a version that is meant without "@".
std::vector<Task> all_tasks(TaskProtocol protocol);

/// The task of the name, or of "name@version". Throws Error for an unknown one, naming the nearest
/// name, the versions that there are, or the protocol that has it.
Task find_task(const std::string& name, TaskProtocol protocol);

/// The tasks that a list of names and groups means, each once.
std::vector<Task> find_tasks(const std::vector<std::string>& names, TaskProtocol protocol);

struct Group {
  std::string name;
  std::vector<std::string> tasks;
};
std::vector<Group> all_groups(TaskProtocol protocol);

}  // namespace penstock::tasks
