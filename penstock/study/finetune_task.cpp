// [finetune] tables read, and results of fine-tunings.
#include "penstock/study/finetune_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/finetune/config.h"
#include "penstock/finetune/run.h"
#include "penstock/io/toml.h"
#include "penstock/study/config_hash.h"
#include "penstock/study/json_field.h"
#include "penstock/study/study_tables.h"

namespace penstock::study {
namespace {

struct TaskFields {
  std::string label, data, task = "auto";
  std::map<std::string, ConfigNode> tables;
  template <class V>
  void visit(V& v) {
    v("label", label, {.help = "name in tables"});
    v("data", data, {.help = "data set: its folder, archive or file; empty: left out"});
    v("task", task,
      {.help = "its format", .choices = {"auto", "sst2", "sst5", "imdb", "banking77"}});
    v.rest(tables, "set, published");
  }
};

FinetuneTask read_task(const std::string& name, const ConfigNode& node) {
  const std::string below = "finetune." + name;
  check_name(name, node.origin());
  const auto fields = read_config<TaskFields>(node, below);
  refuse_other_tables(fields.tables, {"set", "published", "label", "data", "task"}, below + ".");
  FinetuneTask task{.name = name,
                    .label = fields.label.empty() ? name : fields.label,
                    .data = fields.data,
                    .format = fields.task};
  if (const auto set = fields.tables.find("set"); set != fields.tables.end())
    task.settings = set->second;
  if (const auto numbers = fields.tables.find("published"); numbers != fields.tables.end())
    task.published = read_numbers(numbers->second, below + ".published.");
  read_finetune_config(task.settings);  // a mistake shows before anything is trained
  return task;
}

}  // namespace

std::vector<FinetuneTask> read_finetune_tasks(const ConfigNode& tables, const ConfigNode* over,
                                              const std::vector<std::string>& overrides) {
  std::vector<FinetuneTask> out;
  ConfigNode asked;
  apply_overrides(asked, overrides);
  for (const auto& name : names_in_order(tables, "finetune")) {
    ConfigNode node = *tables.find(name);
    for (const ConfigNode* more : {over, asked.find("finetune")})
      if (const ConfigNode* const own = more ? more->find(name) : nullptr) node.merge(*own);
    out.push_back(read_task(name, node));
  }
  for (const ConfigNode* more : {over, asked.find("finetune")})
    if (more)
      for (const auto& [name, node] : more->table())
        PENSTOCK_CHECK(tables.find(name), node.origin(), node.origin().empty() ? "" : ": ",
                       "finetune.", name, " is not a fine-tuning of this study");
  return out;
}

ConfigNode with_seed(const FinetuneTask& task, std::int64_t seed) {
  ConfigNode settings = task.settings;
  if (!settings.find("seed")) settings.set("seed", ConfigNode(seed, "seeds"));
  return settings;
}

std::string task_hash(const FinetuneTask& task, std::int64_t seed, const std::string& checkpoint) {
  std::string text = task.format + "\n" + checkpoint + "\n";
  for (const auto& [key, value] :
       flatten(write_config(read_finetune_config(with_seed(task, seed)))))
    if (key != "decay" || value != "\"decoupled\"")  // as before fine-tuning had that key
      text += key + " = " + value + "\n";
  return fmt::format("{:016x}", fnv1a(text));
}

const Finetuned::Point* Finetuned::at(std::int64_t k) const {
  for (const Point& point : points)
    if (point.k == k || point.k == 0) return &point;
  return nullptr;
}

nlohmann::json to_json(const Finetuned& finetuned) {
  nlohmann::json points = nlohmann::json::array();
  for (const auto& point : finetuned.points)
    points.push_back({{"k", point.k > 0 ? nlohmann::json(point.k) : nlohmann::json()},
                      {"accuracy", point.accuracy},
                      {"macro_f1", point.macro_f1}});
  return {{"task", finetuned.task},
          {"hash", finetuned.hash},
          {"test_texts", finetuned.texts},
          {"majority_accuracy", finetuned.majority},
          {"by_k", points}};
}

Finetuned finetuned_from_json(const nlohmann::json& object, const std::string& where) {
  PENSTOCK_CHECK(object.is_object(), where, ": a fine-tuning is not an object");
  Finetuned out{.task = string_or(object, "task", "", where),
                .hash = string_or(object, "hash", "", where),
                .texts = number_or(object, "test_texts", 0, where),
                .majority = required_number(object, "majority_accuracy", where)};
  const auto points = object.find("by_k");
  PENSTOCK_CHECK(points != object.end() && points->is_array(), where, ": 'by_k' is missing");
  for (const auto& point : *points)
    out.points.push_back({.k = static_cast<std::int64_t>(number_or(point, "k", 0, where)),
                          .accuracy = required_number(point, "accuracy", where),
                          .macro_f1 = number_or(point, "macro_f1", 0, where)});
  return out;
}

std::optional<Finetuned> read_finetuned(const std::string& run_directory) {
  const std::string path = (std::filesystem::path(run_directory) / kFinetuneResult).string();
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::nullopt;
  const nlohmann::json object = nlohmann::json::parse(in, nullptr, false);
  PENSTOCK_CHECK(object.is_object(), path, ": is not a JSON object");
  return finetuned_from_json(object, path);
}

}  // namespace penstock::study
