// Runs zero-shot tasks on each finished run's checkpoint (tasks = [...]) and shows the accuracies
// beside published ones. penstock/tasks defines the tasks and scores them.
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
#include "penstock/study/runs/results.h"
#include "penstock/study/runs/run_folder.h"
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

/// One task's result, as stored in results.json and in the run's folder.
struct Answered {
  std::string task, version;
  std::optional<tasks::TaskProtocol> protocol;
  RunCheckpoint checkpoint = RunCheckpoint::final;
  std::string data;  // a checksum of the files that were read
  std::int64_t limit = 0, fewshot = 0, fewshot_seed = 1234, n = 0;
  double acc = 0;
  std::optional<double> acc_low, acc_high;
  std::optional<double> acc_norm, perplexity, guess;
  bool is_guessing = false;
  std::string refused;  // why there is no result; "" if there is
  template <class V>
  void visit(V& v) {
    v("task", task, Presence::required);
    v("protocol", protocol);
    v("version", version);
    v("checkpoint", checkpoint);
    v("data", data, Presence::if_filled);
    v("limit", limit);
    v("fewshot", fewshot);
    v("fewshot_seed", fewshot_seed);
    v("n", n);
    v("acc", acc, Presence::required);
    v("acc_low", acc_low);
    v("acc_high", acc_high);
    v("acc_norm", acc_norm);
    v("perplexity", perplexity);
    v("guess", guess);
    v("is_guessing", is_guessing);
    v("refused", refused, Presence::if_filled);
  }
  std::string named() const { return task + "@" + version; }
  /// @param sum  checksum of the task's data; "": the data are missing and are not compared
  bool is_of(const Task& wanted, const FinishedRun& run, const Settings& settings,
             const std::string& sum) const {
    return task == wanted.name && protocol == wanted.protocol && version == wanted.version &&
           checkpoint == run.checkpoint && limit == settings.limit && fewshot == settings.fewshot &&
           (fewshot == 0 || fewshot_seed == settings.fewshot_seed) && (sum.empty() || data == sum);
  }
};

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

std::vector<Answered> answered_of(const json& row, const std::string& where) {
  return field_of<std::vector<Answered>>(row, "tasks", where);
}

json list_json(const std::vector<Answered>& list) {
  return list.empty() ? json::object() : json{{"tasks", write_json(list)}};
}

/// Runs one task on the run's checkpoint.
Answered asked_of(const FinishedRun& run, const OpenRun& open, const Task& task,
                  const Settings& settings, const std::string& sum, std::FILE* progress) {
  const auto loaded = tasks::load_task(task, settings.load(task));
  Answered out{.task = task.name,
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

/// The task's name, with its version if the study has several versions.
std::string title_of(const std::string& named, const std::vector<std::string>& all) {
  const auto task_of = [](const std::string& name) { return name.substr(0, name.find('@')); };
  return std::ranges::count(all, task_of(named), task_of) == 1 ? task_of(named) : named;
}

std::string percent(double share) { return fixed(2)(100 * share); }

/// Mean and standard deviation over runs; for a single run, its 95 % interval over the items.
Cell accuracy_cell(const std::vector<Answered>& runs) {
  if (runs.size() == 1 && runs[0].acc_low && runs[0].acc_high)
    return {percent(runs[0].acc),
            fmt::format("[{}, {}]", percent(*runs[0].acc_low), percent(*runs[0].acc_high))};
  std::vector<double> values;
  for (const Answered& run : runs) values.push_back(run.acc);
  return spread_cell(spread(values), percent);
}

/// The runs' results of the task, without refusals.
template <class Rows>
std::vector<Answered> answers_to(const std::string& named, const Rows& rows) {
  std::vector<Answered> out;
  for (const RunRow* row : rows)
    for (const Answered& one : answered_of(row->measured, row->variant))
      if (one.named() == named && one.refused.empty()) out.push_back(one);
  return out;
}

/// Accuracies by variant and task, with published ones below the variant. The last two rows are the
/// accuracy of guessing, and the widest half of a run's interval.
Table accuracy_table(std::span<const VariantSummary> variants, const Comparison& comparison,
                     const std::vector<std::string>& names) {
  Table out{.columns = {"variant"}};
  for (const auto& name : names) out.columns.emplace_back(title_of(name, names));
  TableRow guessing{.cells = std::vector<Cell>(names.size() + 1, "–")};
  TableRow reach = guessing;
  guessing.cells[0] = "guessing";
  reach.cells[0] = "a run's 95 %";
  std::vector<double> widest(names.size(), 0);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    TableRow row{.cells = {variants[i].label}, .variant = i};
    TableRow paper{.cells = {"published"}, .beneath = true};
    bool published = false;
    for (std::size_t c = 0; c < names.size(); ++c) {
      const std::vector<Answered> runs = answers_to(names[c], variants[i].rows);
      for (const Answered& one : runs) {
        if (one.guess) guessing.cells[c + 1] = percent(*one.guess);
        if (one.acc_low && one.acc_high)
          widest[c] = std::max({widest[c], one.acc - *one.acc_low, *one.acc_high - one.acc});
        if (widest[c] > 0) reach.cells[c + 1] = "± " + percent(widest[c]);
      }
      row.cells.push_back(accuracy_cell(runs));
      const auto number =
          published_number(comparison, variants[i].name, names[c].substr(0, names[c].find('@')));
      published |= number.has_value();
      paper.cells.emplace_back(number ? fixed(2)(*number) : "–");
    }
    out.rows.push_back(std::move(row));
    if (published) out.rows.push_back(std::move(paper));
  }
  out.rows.push_back(std::move(guessing));
  out.rows.push_back(std::move(reach));
  return out;
}

/// The tasks on which every run may be guessing; "" if there are none.
std::string guessing_text(std::span<const RunRow> rows, const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names) {
    bool told = false;
    for (const RunRow& row : rows)
      for (const Answered& one : answered_of(row.measured, row.variant))
        told |= one.named() == name && (!one.is_guessing || !one.refused.empty());
    if (!told) out += (out.empty() ? "" : ", ") + title_of(name, names);
  }
  return out.empty() ? "" : "No run can be told from guessing on: " + out + ".";
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
    if (names && part == KeysOf::study) named_ = *names;
    if (files) files_ = *files;
    if (protocol) settings_.protocol = *protocol;
    if (data) settings_.data = *data;
    if (limit) settings_.limit = *limit;
    if (fewshot) settings_.fewshot = *fewshot;
    if (seed) settings_.fewshot_seed = *seed;
  }
  void settle(std::span<const std::string>, const std::string& path) override {
    for (const Task& task : tasks::find_tasks(named_, settings_.protocol))
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
    const json before = row.measured;
    row.measured.erase("tasks");
    row.measured.update(in_order(run, before));
    return row.measured != before;
  }
  std::vector<Work> missing(const FinishedRun& run, const RunRow& row) const override {
    const auto have = answered_of(row.measured, row.variant);
    std::vector<Work> out;
    for (const Task& task : tasks_)
      if (std::ranges::none_of(have, [&](const Answered& one) {
            return one.is_of(task, run, settings_, sum_of(task));
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
    Answered out = asked_of(run, *open_, *task, settings_, sum_of(*task), control.progress);
    if (work.asked["last"]) open_.reset();  // the next training needs the memory
    return write_json(out);
  }
  void keep(const FinishedRun& run, const Work&, const json& result, RunRow& row) const override {
    row.measured["tasks"].push_back(result);
    row.measured.update(in_order(run, row.measured));
    write_kept_object({{"tasks", row.measured["tasks"]}}, run.directory, kFile);
  }

  json read_row(const json& row, const std::string& where) const override {
    return list_json(answered_of(row, where));
  }
  json read_folder(const std::string& run_directory) const override {
    const auto kept = read_kept_object(run_directory, kFile);
    return kept ? read_row(*kept, run_directory + "/" + kFile) : json::object();
  }

  std::vector<Section> sections(std::span<const RunRow> rows,
                                const Comparison& comparison) const override {
    std::vector<std::string> names;
    for (const RunRow& row : rows)
      for (const Answered& one : answered_of(row.measured, row.variant))
        if (std::ranges::find(names, one.named()) == names.end()) names.push_back(one.named());
    if (names.empty()) return {};
    const auto variants = summarize(rows);
    Section out{.title = "Zero-shot accuracy, %",
                .tables = {accuracy_table(variants, comparison, names)},
                .note =
                    "Mean ± standard deviation over seeds; of a single run its 95 % interval "
                    "over the items (Wilson). Guessing: a choice at random. Last: how far the "
                    "widest interval of a run reaches."};
    if (const auto text = guessing_text(rows, names); !text.empty())
      out.remarks.push_back({.text = text, .tone = Tone::warning});
    std::set<std::string> refused;
    for (const RunRow& row : rows)
      for (const Answered& one : answered_of(row.measured, row.variant))
        if (!one.refused.empty())
          refused.insert(row.label + ", " + one.task + ": not asked: " + one.refused);
    for (const auto& text : refused) out.remarks.push_back({.text = text, .tone = Tone::warning});
    return {out};
  }

 private:
  /// The row's results that the study asks for, in the study's order.
  json in_order(const FinishedRun& run, const json& row) const {
    std::vector<Answered> out;
    const auto have = answered_of(row, run.directory);
    for (const Task& task : tasks_)
      for (const Answered& one : have)
        if (one.is_of(task, run, settings_, sum_of(task))) out.push_back(one);
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
  std::vector<std::string> named_;
  std::set<std::string> published_;
  Settings settings_;
  std::vector<Task> tasks_;
  mutable std::map<std::string, std::string> sums_;
  mutable std::optional<OpenRun> open_;  // between the tasks of one run
};

const RegisterMeasurement<Tasks> registered("tasks");

}  // namespace
}  // namespace penstock::study::zero_shot
