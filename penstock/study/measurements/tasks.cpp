// Zero-shot tasks of each finished run's checkpoint (tasks = [...]): accuracies, the papers' cells
// beside them. What the tasks are and how they are scored is penstock/tasks'.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/models/model_directory.h"
#include "penstock/ops/dispatch.h"
#include "penstock/study/measurement.h"
#include "penstock/study/results.h"
#include "penstock/study/run_folder.h"
#include "penstock/tasks/catalogue.h"
#include "penstock/tasks/evaluate.h"
#include "penstock/train/recipe.h"

namespace penstock::study::zero_shot {
namespace {

using nlohmann::json;
using tasks::Task;

constexpr const char* kFile = "tasks.json";

/// One task's result, as results.json and the run's folder have it.
struct Answered {
  std::string task, protocol, version, checkpoint;
  std::int64_t limit = 0, n = 0;
  double acc = 0;
  std::optional<double> acc_norm, perplexity, guess;
  bool is_guessing = false;
  std::string refused;  // why there is no result; "" where there is
  template <class V>
  void visit(V& v) {
    v("task", task, Presence::required);
    v("protocol", protocol);
    v("version", version);
    v("checkpoint", checkpoint);
    v("limit", limit);
    v("n", n);
    v("acc", acc, Presence::required);
    v("acc_norm", acc_norm);
    v("perplexity", perplexity);
    v("guess", guess);
    v("is_guessing", is_guessing);
    v("refused", refused, Presence::if_filled);
  }
  std::string named() const { return task + "@" + version; }
  bool is_of(const Task& wanted, const FinishedRun& run, std::int64_t wanted_limit) const {
    return task == wanted.name && protocol == wanted.protocol && version == wanted.version &&
           checkpoint == run.checkpoint && limit == wanted_limit;
  }
};

std::vector<Answered> answered_of(const json& row, const std::string& where) {
  return field_of<std::vector<Answered>>(row, "tasks", where);
}

json list_json(const std::vector<Answered>& list) {
  return list.empty() ? json::object() : json{{"tasks", write_json(list)}};
}

/// What the run's checkpoint answers.
Answered asked_of(const FinishedRun& run, const Task& task, const std::string& data,
                  std::int64_t limit, std::FILE* progress) {
  const Recipe recipe = read_recipe(run.recipe);
  ops::set_threads(static_cast<int>(recipe.run.threads));
  const auto source =
      open_model_source(find_checkpoint(run.directory, run.checkpoint).directory.string());
  const auto model = load_model(*source);
  model->to(at::Device(recipe.run.device));
  const auto tokenizer = source->tokenizer();
  const auto loaded =
      tasks::load_task(task, {.directory = data, .limit = static_cast<std::size_t>(limit)});
  Answered out{.task = task.name,
               .protocol = task.protocol,
               .version = task.version,
               .checkpoint = run.checkpoint,
               .limit = limit,
               .n = static_cast<std::int64_t>(loaded.items.items.size())};
  ProgressLine line(progress);
  const auto show = [&](double done) {
    if (line.due()) line.show(fmt::format("{}  {:3.0f}%", task.name, 100 * done));
  };
  const tasks::EvaluateTaskOptions how{.scoring = {.progress = show}};
  tasks::TaskTokens requests;
  try {
    requests = encode_task(model->config(), *tokenizer, loaded, how);
  } catch (const Error& error) {  // of this model: the study's others may well answer
    out.refused = error.what();
    return out;
  }
  const tasks::TaskResult result =
      evaluate_task(model, *tokenizer, loaded, std::move(requests), how).result;
  line.finish();
  out.acc = result.acc.mean;
  out.perplexity = result.perplexity;
  out.guess = result.guess;
  out.is_guessing = result.is_guessing();
  if (result.acc_norm) out.acc_norm = result.acc_norm->mean;
  return out;
}

/// The task's name, with its version where the study has several.
std::string title_of(const std::string& named, const std::vector<std::string>& all) {
  const auto task_of = [](const std::string& name) { return name.substr(0, name.find('@')); };
  return std::ranges::count(all, task_of(named), task_of) == 1 ? task_of(named) : named;
}

/// Accuracies by variant and task; a paper's below the variant, guessing's at the end.
Table accuracy_table(std::span<const VariantSummary> variants, const Comparison& comparison,
                     const std::vector<std::string>& names) {
  const auto percent = fixed(2);
  Table out{.columns = {"variant"}};
  for (const auto& name : names) out.columns.emplace_back(title_of(name, names));
  TableRow guessing{.cells = std::vector<Cell>(names.size() + 1, "–")};
  guessing.cells[0] = "guessing";
  for (std::size_t i = 0; i < variants.size(); ++i) {
    TableRow row{.cells = {variants[i].label}, .variant = i};
    TableRow paper{.cells = {"published"}, .beneath = true};
    bool published = false;
    for (std::size_t c = 0; c < names.size(); ++c) {
      std::vector<double> values;
      for (const RunRow* run : variants[i].rows)
        for (const Answered& one : answered_of(run->measured, run->variant)) {
          if (one.named() != names[c] || !one.refused.empty()) continue;
          values.push_back(100 * one.acc);
          if (one.guess) guessing.cells[c + 1] = percent(100 * *one.guess);
        }
      row.cells.push_back(spread_cell(spread(values), percent));
      const auto number =
          published_number(comparison, variants[i].name, names[c].substr(0, names[c].find('@')));
      published |= number.has_value();
      paper.cells.emplace_back(number ? percent(*number) : "–");
    }
    out.rows.push_back(std::move(row));
    if (published) out.rows.push_back(std::move(paper));
  }
  out.rows.push_back(std::move(guessing));
  return out;
}

/// "" or which tasks no run is told from guessing on.
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
    std::optional<std::vector<std::string>> names;
    std::optional<std::string> protocol, data;
    std::optional<std::int64_t> limit;
    keys(
        "tasks", names,
        {.help = "zero-shot tasks, or groups of them, that finished runs are asked (`penstock eval "
                 "--list-tasks`)"});
    keys("task_protocol", protocol, {.help = "whose forms: lm-eval or opencompass"});
    keys("task_data", data, {.help = "folder with the tasks' data"});
    keys("task_limit", limit, {.help = "the first so many items of each; 0: all", .min = 0});
    if (names) names_ = *names;
    if (protocol) protocol_ = *protocol;
    if (data) data_ = *data;
    if (limit) limit_ = *limit;
  }
  void settle(std::span<const std::string>, const std::string& path) override {
    if (names_.empty()) return;
    tasks_ = tasks::find_tasks(names_, protocol_);
    PENSTOCK_CHECK(!data_.empty(), path,
                   ": tasks without task_data; name the folder that has their data");
  }
  std::string showable() const override { return "a task of tasks = [...] (arc_easy)"; }
  bool shows(const std::string& name) const override {
    return std::ranges::find(tasks_, name, &Task::name) != tasks_.end();
  }
  void check() const override {
    for (const Task& task : tasks_)
      tasks::load_task(task, {.directory = data_, .limit = static_cast<std::size_t>(limit_)});
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
      if (std::ranges::none_of(have,
                               [&](const Answered& one) { return one.is_of(task, run, limit_); }))
        out.push_back({.what = "asking " + task.name,
                       .asked = {{"task", task.name}, {"version", task.version}}});
    return out;
  }
  std::optional<json> measure(const FinishedRun& run, const Work& work,
                              const TrainControl& control) const override {
    const auto task = std::ranges::find_if(tasks_, [&](const Task& one) {
      return one.name == work.asked["task"] && one.version == work.asked["version"];
    });
    return write_json(asked_of(run, *task, data_, limit_, control.progress));
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
                .note = "Mean ± standard deviation over seeds. Guessing: a choice at random."};
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
  /// Those of the row that the study asks for, in its order.
  json in_order(const FinishedRun& run, const json& row) const {
    std::vector<Answered> out;
    const auto have = answered_of(row, run.directory);
    for (const Task& task : tasks_)
      for (const Answered& one : have)
        if (one.is_of(task, run, limit_)) out.push_back(one);
    return list_json(out);
  }

  std::vector<std::string> names_;
  std::string protocol_ = tasks::kLmEval, data_;
  std::int64_t limit_ = 0;
  std::vector<Task> tasks_;
};

const RegisterMeasurement<Tasks> registered("tasks");

}  // namespace
}  // namespace penstock::study::zero_shot
