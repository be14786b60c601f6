// Runs zero-shot tasks on each finished run's checkpoint (tasks = [...]). penstock/tasks defines
// the tasks and scores them; tables/accuracy_sections.h shows the accuracies.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/ops/dispatch.h"
#include "penstock/study/measurement.h"
#include "penstock/study/runs/run_folder.h"
#include "penstock/study/tables/accuracy_sections.h"
#include "penstock/study/tables/answered_task.h"
#include "penstock/tasks/catalogue.h"
#include "penstock/tasks/evaluate.h"
#include "penstock/train/read_recipe.h"

namespace penstock::study::zero_shot {
namespace {

using nlohmann::json;
using tasks::Task;

constexpr const char* kFile = "tasks.json";

/// The study's settings for tasks.
struct Settings {
  tasks::TaskProtocol protocol = tasks::TaskProtocol::kLmEval;
  std::string data;
  std::int64_t limit = 0, fewshot = 0, fewshot_seed = 1234;

  std::string folder(const Task& task) const { return tasks::data_folder(task, data); }
  tasks::LoadOptions load(const Task& task) const {
    return {.directory = folder(task),
            .limit = static_cast<std::size_t>(limit),
            .shots = {.count = static_cast<std::size_t>(fewshot),
                      .seed = static_cast<std::uint64_t>(fewshot_seed)}};
  }
};

/// Whether the result answers what the study asks.
/// @param sum  checksum of the task's data; "": the data are missing and are not compared
bool is_of(const AnsweredTask& have, const Task& wanted, const FinishedRun& run,
           const Settings& settings, const std::string& sum) {
  return have.task == wanted.name && have.protocol == wanted.protocol &&
         have.version == wanted.version && have.checkpoint == run.checkpoint &&
         have.limit == settings.limit && have.fewshot == settings.fewshot &&
         (have.fewshot == 0 || have.fewshot_seed == settings.fewshot_seed) &&
         (sum.empty() || have.data == sum);
}

/// A run's checkpoint, kept open for all its tasks.
struct OpenRun {
  std::string directory;
  std::shared_ptr<LanguageModel> model;
  std::shared_ptr<const Tokenizer> tokenizer;
};

OpenRun open_run(const FinishedRun& run) {
  const Recipe recipe = read_recipe(run.recipe);
  ops::set_threads(static_cast<int>(recipe.run.threads));
  const auto source =
      open_model_source(find_checkpoint(run.directory, run.checkpoint).directory.string());
  OpenRun out{
      .directory = run.directory, .model = load_model(*source), .tokenizer = source->tokenizer()};
  out.model->to(at::Device(recipe.run.device));
  return out;
}

json list_json(const std::vector<AnsweredTask>& list) {
  return list.empty() ? json::object() : json{{"tasks", write_json(list)}};
}

/// Runs one task on the run's checkpoint.
AnsweredTask asked_of(const FinishedRun& run, const OpenRun& open, const Task& task,
                      const Settings& settings, const std::string& sum, std::FILE* progress) {
  const auto loaded = tasks::load_task(task, settings.load(task));
  AnsweredTask out{.task = task.name,
                   .version = task.version,
                   .protocol = task.protocol,
                   .checkpoint = run.checkpoint,
                   .data = sum,
                   .limit = settings.limit,
                   .fewshot = settings.fewshot,
                   .fewshot_seed = settings.fewshot_seed,
                   .n = static_cast<std::int64_t>(loaded.items.items.size())};
  ProgressLine line(progress);
  const auto show = [&](double done) {
    if (line.due()) line.show(fmt::format("{}  {:3.0f}%", task.name, 100 * done));
  };
  const tasks::EvaluateTaskOptions how{.scoring = {.progress = show}};
  tasks::TaskTokens requests;
  try {
    requests = encode_task(open.model->config(), *open.tokenizer, loaded, how);
  } catch (const Error& error) {  // of this model; other models may run the task
    out.refused = error.what();
    return out;
  }
  const tasks::TaskResult result =
      evaluate_task(open.model, *open.tokenizer, loaded, std::move(requests), how).result;
  line.finish();
  out.acc = result.acc.mean;
  out.acc_low = result.acc.low;
  out.acc_high = result.acc.high;
  out.perplexity = result.perplexity;
  out.guess = result.guess;
  out.is_guessing = result.is_guessing();
  if (result.acc_norm) out.acc_norm = result.acc_norm->mean;
  return out;
}

class Tasks : public Measurement {
 public:
  void read_keys(FieldReader& keys, KeysOf part) override {
    if (part == KeysOf::command_line) return;
    std::optional<std::vector<std::string>> names, files;
    std::optional<tasks::TaskProtocol> protocol;
    std::optional<std::string> data;
    std::optional<std::int64_t> limit, fewshot, seed;
    keys("tasks", names,
         {.help = "zero-shot tasks, or groups of tasks, on which finished runs are evaluated "
                  "(`penstock eval --list-tasks`)"});
    keys("task_files", files,
         {.help = "TOML files of your own tasks, relative to the study's folder"});
    keys("task_protocol", protocol, {.help = "harness whose forms of the tasks are used"});
    keys("task_data", data, {.help = "folder with the data of the tasks"});
    keys("task_limit", limit,
         {.help = "number of items per task, from the first; 0: all", .min = 0});
    keys("task_fewshot", fewshot,
         {.help = "few-shot examples before each item; 0: none", .min = 0});
    keys("task_fewshot_seed", seed, {.help = "seed for drawing few-shot examples", .min = 0});
    if (names) names_ = *names;
    if (names && part == KeysOf::study) task_names_ = *names;
    if (files) files_ = *files;
    if (protocol) settings_.protocol = *protocol;
    if (data) settings_.data = *data;
    if (limit) settings_.limit = *limit;
    if (fewshot) settings_.fewshot = *fewshot;
    if (seed) settings_.fewshot_seed = *seed;
  }
  void settle(std::span<const std::string>, const std::string& path) override {
    for (const Task& task : tasks::find_tasks(task_names_, settings_.protocol))
      published_.insert(task.name);
    if (!names_.empty()) {
      tasks_ = tasks::find_tasks(names_, settings_.protocol);
      PENSTOCK_CHECK(!settings_.data.empty(), path,
                     ": tasks without task_data; name the folder that has their data");
    }
    for (const std::string& file : files_) {
      Task task = tasks::read_task((std::filesystem::path(path).parent_path() / file).string());
      PENSTOCK_CHECK(std::ranges::find(tasks_, task.name, &Task::name) == tasks_.end(), path,
                     ": there are two tasks named ", task.name, "; give one of them another name");
      tasks_.push_back(std::move(task));
    }
  }
  std::string showable() const override { return "a task of tasks = [...] (arc_easy)"; }
  bool shows(const std::string& name) const override {
    return published_.contains(name) ||
           std::ranges::find(tasks_, name, &Task::name) != tasks_.end();
  }
  void check() const override {
    for (const Task& task : tasks_) tasks::load_task(task, settings_.load(task));
  }

  bool prune(const FinishedRun& run, RunRow& row) const override {
    return replace_measured(row, "tasks", in_order(run, row.measured));
  }
  std::vector<Work> missing(const FinishedRun& run, const RunRow& row) const override {
    const auto have = answered_tasks(row.measured, row.variant);
    std::vector<Work> out;
    for (const Task& task : tasks_)
      if (std::ranges::none_of(have, [&](const AnsweredTask& one) {
            return is_of(one, task, run, settings_, sum_of(task));
          }))
        out.push_back({.what = "asking " + task.name,
                       .asked = {{"task", task.name}, {"version", task.version}, {"last", false}}});
    if (!out.empty()) out.back().asked["last"] = true;
    return out;
  }
  std::optional<json> measure(const FinishedRun& run, const Work& work,
                              const TrainControl& control) const override {
    const auto name = work.asked["task"].get<std::string>();
    const auto version = work.asked["version"].get<decltype(Task::version)>();
    const auto task = std::ranges::find_if(
        tasks_, [&](const Task& one) { return one.name == name && one.version == version; });
    if (!open_ || open_->directory != run.directory) open_ = open_run(run);
    AnsweredTask out = asked_of(run, *open_, *task, settings_, sum_of(*task), control.progress);
    if (work.asked["last"]) open_.reset();  // the next training needs the memory
    return write_json(out);
  }
  void keep(const FinishedRun& run, const Work&, const json& result, RunRow& row) const override {
    row.measured["tasks"].push_back(result);
    row.measured.update(in_order(run, row.measured));
    write_kept_object({{"tasks", row.measured["tasks"]}}, run.directory, kFile);
  }

  json read_row(const json& row, const std::string& where) const override {
    return list_json(answered_tasks(row, where));
  }
  json read_folder(const std::string& run_directory) const override {
    const auto kept = read_kept_object(run_directory, kFile);
    return kept ? read_row(*kept, run_directory + "/" + kFile) : json::object();
  }

  std::vector<Section> sections(std::span<const RunRow> rows,
                                const Comparison& comparison) const override {
    return accuracy_sections(rows, comparison);
  }

 private:
  /// The row's results that the study asks for, in the study's order.
  json in_order(const FinishedRun& run, const json& row) const {
    std::vector<AnsweredTask> out;
    const auto have = answered_tasks(row, run.directory);
    for (const Task& task : tasks_)
      for (const AnsweredTask& one : have)
        if (is_of(one, task, run, settings_, sum_of(task))) out.push_back(one);
    return list_json(out);
  }

  /// The checksum of the task's data, computed once; "" if the data are missing. Rows are
  /// then used without a comparison of checksums.
  const std::string& sum_of(const Task& task) const {
    const auto [found, is_new] = sums_.try_emplace(task.origin);
    if (is_new && is_there(task))
      found->second = tasks::data_sum(task, settings_.folder(task), settings_.fewshot > 0);
    return found->second;
  }
  bool is_there(const Task& task) const {
    try {
      tasks::find_data(task, settings_.folder(task));
      if (settings_.fewshot > 0 && task.fewshot) tasks::find_examples(task, settings_.folder(task));
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  std::vector<std::string> names_, files_;
  /// The tasks that the study names outside its scales. Published values of these tasks are valid
  /// even if the scale asks for no tasks.
  std::vector<std::string> task_names_;
  std::set<std::string> published_;
  Settings settings_;
  std::vector<Task> tasks_;
  mutable std::map<std::string, std::string> sums_;
  mutable std::optional<OpenRun> open_;  // between the tasks of one run
};

const RegisterMeasurement<Tasks> registered("tasks");

}  // namespace
}  // namespace penstock::study::zero_shot
