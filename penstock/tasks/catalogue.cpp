#include "penstock/tasks/catalogue.h"

#include <algorithm>
#include <filesystem>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/base/joined.h"
#include "penstock/io/toml.h"
#include "penstock/tasks/embedded_files.h"

namespace penstock::tasks {
namespace {

constexpr std::string_view kGroups = "groups.toml";

TaskProtocol other_protocol(TaskProtocol protocol) {
  return protocol == TaskProtocol::kLmEval ? TaskProtocol::kOpenCompass : TaskProtocol::kLmEval;
}

/// Whether the task's name without a version means this task: its file then has the task's name.
bool is_usual(const Task& task) { return std::filesystem::path(task.origin).stem() == task.name; }

bool is_named(const Task& task, const std::string& name) {
  return name == versioned_name(task.name, task.version) || (name == task.name && is_usual(task));
}

[[noreturn]] void unknown(const std::string& name, TaskProtocol protocol,
                          const std::vector<Task>& tasks) {
  std::vector<std::string> names;
  for (const Task& task : tasks) {
    names.push_back(is_usual(task) ? task.name : versioned_name(task.name, task.version));
    PENSTOCK_CHECK(name.substr(0, name.find('@')) != task.name || !is_usual(task), "task ",
                   task.name, " has no version '", name.substr(name.find('@') + 1), "' here; ",
                   task.name, " is ", task.version);
  }
  for (const Group& group : all_groups(protocol)) names.push_back(group.name);
  const TaskProtocol other = other_protocol(protocol);
  for (const Task& task : all_tasks(other))
    PENSTOCK_CHECK(!is_named(task, name), "protocol ", word(protocol), " has no task '", name,
                   "' here; protocol ", word(other), " has");
  for (const Group& group : all_groups(other))
    PENSTOCK_CHECK(group.name != name, "protocol ", word(protocol), " has no group '", name,
                   "' here; protocol ", word(other), " has");
  std::ranges::sort(names);
  const std::string nearest = nearest_name(name, names);
  fail("there is no task '", name, "'",
       nearest.empty() ? "; there are " + joined(names) : "; did you mean '" + nearest + "'?");
}

}  // namespace

std::vector<Task> all_tasks(TaskProtocol protocol) {
  const std::string folder = concat(word(protocol), "/");
  std::vector<Task> out;
  for (const EmbeddedFile& file : embedded_files())
    if (file.name.starts_with(folder)) {
      const std::string name = "tasks/" + std::string(file.name);
      out.push_back(parse_task(parse_toml(std::string(file.text), name), name));
    }
  return out;
}

Task find_task(const std::string& name, TaskProtocol protocol) {
  const std::vector<Task> tasks = all_tasks(protocol);
  for (const Task& task : tasks)
    if (is_named(task, name)) return task;
  unknown(name, protocol, tasks);
}

std::vector<Task> find_tasks(const std::vector<std::string>& names, TaskProtocol protocol) {
  const std::vector<Group> groups = all_groups(protocol);
  std::vector<Task> out;
  const auto add = [&](const std::string& name) {
    Task task = find_task(name, protocol);
    for (const Task& other : out)
      if (other.origin == task.origin) return;
    out.push_back(std::move(task));
  };
  for (const std::string& name : names) {
    const auto group = std::ranges::find(groups, name, &Group::name);
    if (group == groups.end())
      add(name);
    else
      for (const std::string& member : group->tasks) add(member);
  }
  return out;
}

std::vector<Group> all_groups(TaskProtocol protocol) {
  std::vector<Group> out;
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.name != kGroups) continue;
    const ConfigNode root = parse_toml(std::string(file.text), "tasks/" + std::string(file.name));
    const ConfigNode* groups = root.find(std::string(word(protocol)));
    if (!groups) continue;
    for (const auto& [name, members] : groups->table()) {
      out.push_back({.name = name});
      for (const ConfigNode& member : std::get<ConfigNode::Array>(members.value()))
        out.back().tasks.push_back(std::get<std::string>(member.value()));
    }
  }
  return out;
}

}  // namespace penstock::tasks
