// [finetune.NAME] tables: a classifier trained on each finished run's checkpoint, and its accuracy
// by experts per token. The fine-tuning itself is penstock/finetune's.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "penstock/base/error.h"
#include "penstock/finetune/config.h"
#include "penstock/finetune/run.h"
#include "penstock/finetune/test_result.h"
#include "penstock/models/routing_choice.h"
#include "penstock/ops/dispatch.h"
#include "penstock/study/config/config_hash.h"
#include "penstock/study/measurement.h"
#include "penstock/study/runs/results.h"
#include "penstock/study/runs/run_folder.h"
#include "penstock/study/tables/settings_table.h"
#include "penstock/train/read_recipe.h"

namespace penstock::study::finetuning {
namespace {

using nlohmann::json;

/// A [finetune.NAME] table.
struct Task {
  std::string name, label;
  std::string data;  // for `penstock finetune --data`; empty: left out
  ClassificationFormat format = ClassificationFormat::kAuto;  // for its `--task`
  ConfigNode set;                                             // keys of `penstock finetune --set`
  ConfigNode published;                                       // settings of the paper, by key

  template <class V>
  void visit(V& v) {
    v("label", label, {.help = "name in tables"});
    v("data", data, {.help = "data set: its folder, archive or file; empty: not run"});
    v("task", format, {.help = "format of the data set"});
    v("set", set, {.help = "keys of `penstock finetune --set`"});
    v("published", published, {.help = "settings of the paper"});
  }
};

Task read_task(const std::string& name, const ConfigNode& node) {
  const std::string below = "finetune." + name;
  check_name(name, node.origin());
  Task task = read_config<Task>(node, below);
  task.name = name;
  if (task.label.empty()) task.label = name;
  read_numbers(task.published, below + ".published.");
  read_finetune_config(task.set);  // a mistake shows before anything is trained
  return task;
}

/// The settings of the task, with `seed` if they name no seed.
FinetuneConfig config_of(const Task& task, std::int64_t seed) {
  ConfigNode settings = task.set;
  if (!settings.find("seed")) settings.set("seed", ConfigNode(seed, "seeds"));
  return read_finetune_config(settings);
}

std::string hash_of(const Task& task, const FinishedRun& run) {
  return finetuning_hash(config_of(task, run.seed), std::string(word(task.format)),
                         std::string(word(run.checkpoint)));
}

/// The test of one fine-tuned run, with the keys of its finetune.json.
struct Tested {
  struct Point {
    std::optional<std::int64_t> k;  // none: the model has no k
    double accuracy = 0, macro_f1 = 0;
    template <class V>
    void visit(V& v) {
      v("k", k);
      v("accuracy", accuracy, Presence::required);
      v("macro_f1", macro_f1);
    }
  };
  std::string task, hash;
  double texts = 0, majority = 0;  // test texts; accuracy of the training set's commonest class
  std::vector<Point> points;
  template <class V>
  void visit(V& v) {
    v("task", task);
    v("hash", hash);
    v("test_texts", texts);
    v("majority_accuracy", majority, Presence::required);
    v("by_k", points, Presence::required);
  }

  /// The point at k, or the single point of a model without k; null if there is none.
  const Point* at(std::int64_t k) const {
    const auto it =
        std::ranges::find_if(points, [&](const Point& point) { return point.k.value_or(k) == k; });
    return it == points.end() ? nullptr : &*it;
  }
};

std::vector<Tested> tested_of(const json& row, const std::string& where) {
  return field_of<std::vector<Tested>>(row, "finetuned", where);
}

json list_json(const std::vector<Tested>& list) {
  return list.empty() ? json::object() : json{{"finetuned", write_json(list)}};
}

struct TaskColumn {
  std::string task;
  std::int64_t k = 0;  // 0: the single value of models without k
};

/// The tests of one variant's runs.
std::vector<Tested> tested_of(const VariantSummary& variant) {
  std::vector<Tested> out;
  for (const RunRow* row : variant.rows)
    for (Tested& one : tested_of(row->measured, row->variant)) out.push_back(std::move(one));
  return out;
}

/// Tasks in the order of the runs, each with every k that some run has.
std::vector<TaskColumn> task_columns(Variants variants) {
  std::vector<std::string> tasks;
  std::map<std::string, std::set<std::int64_t>> ks;
  for (const auto& variant : variants)
    for (const Tested& one : tested_of(variant)) {
      if (!ks.contains(one.task)) tasks.push_back(one.task);
      for (const auto& point : one.points) ks[one.task].insert(point.k.value_or(0));
    }
  std::vector<TaskColumn> out;
  for (const auto& task : tasks) {
    if (ks[task].size() > 1) ks[task].erase(0);
    for (const std::int64_t k : ks[task]) out.push_back({task, k});
  }
  return out;
}

/// Accuracy by task and k over the seeds, with published values below each variant and the majority
/// class in the last row.
Table accuracy_table(Variants variants, const Comparison& comparison,
                     const std::vector<TaskColumn>& columns) {
  const auto percent = fixed(2);
  Table out{.columns = {"variant"}};
  TableRow majority{.cells = {"majority class"}};
  for (const auto& column : columns)
    out.columns.emplace_back(column.task + (column.k > 0 ? fmt::format(" k={}", column.k) : ""));
  majority.cells.resize(out.columns.size(), "–");
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const auto tested = tested_of(variants[i]);
    TableRow row{.cells = {variants[i].label}, .variant = i},
        paper{.cells = {"paper"}, .beneath = true};
    bool published = false;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      std::vector<double> values;
      for (const Tested& one : tested) {
        if (one.task != columns[c].task) continue;
        majority.cells[c + 1] = percent(100 * one.majority);
        if (const auto* point = one.at(columns[c].k)) values.push_back(100 * point->accuracy);
      }
      row.cells.push_back(spread_cell(spread(values), percent));
      const auto& [task, k] = columns[c];
      const auto number = published_number(comparison, variants[i].name,
                                           k > 0 ? fmt::format("{}-k{}", task, k) : task, task);
      published |= number.has_value();
      paper.cells.emplace_back(number ? percent(*number) : "–");
    }
    out.rows.push_back(std::move(row));
    if (published) out.rows.push_back(std::move(paper));
  }
  out.rows.push_back(std::move(majority));
  return out;
}

class Finetuning : public Measurement {
 public:
  void read_keys(FieldReader& keys, KeysOf part) override {
    ConfigNode tables;
    keys("finetune", tables, {.help = "fine-tunings of every finished run, by name"});
    if (part == KeysOf::study) {
      order_ = names_in_order(tables, "finetune");
      tables_ = tables;
      return;
    }
    for (const auto& [name, node] : tables.table())
      PENSTOCK_CHECK(tables_.find(name), node.origin(), node.origin().empty() ? "" : ": ",
                     "finetune.", name, " is not a fine-tuning of this study");
    tables_.merge(tables);
  }
  bool takes(const std::string& override) const override {
    return override.starts_with("finetune.");
  }
  void settle(std::span<const std::string>, const std::string&) override {
    for (const auto& name : order_) tasks_.push_back(read_task(name, *tables_.find(name)));
  }
  std::string showable() const override { return "a fine-tuning (NAME, NAME-k8)"; }
  bool shows(const std::string& name) const override {
    return std::ranges::any_of(tasks_, [&](const Task& task) {
      return name == task.name || (name.starts_with(task.name + "-") &&
                                   k_of_name(name.substr(task.name.size() + 1)) > 0);
    });
  }
  std::optional<Table> settings_table() const override {
    if (tasks_.empty()) return std::nullopt;
    SettingsTable out("Settings of the fine-tunings", "data",
                      {{"sequence_length", "input length", "sequence_length"},
                       {"batch", "batch size", "batch"},
                       {"lr", "lr", "lr"},
                       {"epochs", "epochs", "epochs"}});
    for (const auto& task : tasks_)
      out.add(task.label, task.data, flatten(write_config(read_finetune_config(task.set))), "",
              read_numbers(task.published, ""));
    return out.table();
  }
  void check() const override {
    for (const Task& task : tasks_)
      PENSTOCK_CHECK(task.data.empty() || std::filesystem::exists(task.data), "finetune.",
                     task.name, ".data: there is no '", task.data,
                     "'; name a folder there, or leave the task out with \"\"");
  }

  bool prune(const FinishedRun& run, RunRow& row) const override {
    return replace_measured(row, "finetuned", in_order(run, row.measured));
  }
  std::vector<Work> missing(const FinishedRun& run, const RunRow& row) const override {
    const auto have = tested_of(row.measured, row.variant);
    std::vector<Work> out;
    for (const Task& task : tasks_) {
      const std::string hash = hash_of(task, run);
      const bool done = std::ranges::any_of(
          have, [&](const Tested& one) { return one.task == task.name && one.hash == hash; });
      if (task.data.empty() || done) continue;
      const auto directory =
          std::filesystem::path(run.directory) / "finetune" / (task.name + "-" + hash);
      const bool trains = !std::filesystem::exists(directory / kFinetuneResult);
      out.push_back({.what = trains ? "fine-tuning on " + task.name : "",
                     .asked = {{"task", task.name}, {"hash", hash}},
                     .trains = trains,
                     .directory = directory.string()});
    }
    return out;
  }
  std::optional<json> measure(const FinishedRun& run, const Work& work,
                              const TrainControl& control) const override {
    if (work.trains && !finetune(run, work, control)) return std::nullopt;
    return read_kept_object(work.directory, kFinetuneResult);
  }
  void keep(const FinishedRun& run, const Work& work, const json& result,
            RunRow& row) const override {
    auto tested = read_json<Tested>(result, work.directory);
    tested.task = work.asked["task"].get<std::string>();
    tested.hash = work.asked["hash"].get<std::string>();
    row.measured["finetuned"].push_back(write_json(tested));
    row.measured.update(in_order(run, row.measured));
  }

  json read_row(const json& row, const std::string& where) const override {
    return list_json(tested_of(row, where));
  }

  std::vector<Section> sections(std::span<const RunRow> rows,
                                const Comparison& comparison) const override {
    const auto variants = summarize(rows);
    const auto columns = task_columns(variants);
    if (columns.empty()) return {};
    return {{.title = "Accuracy after fine-tuning, %",
             .tables = {accuracy_table(variants, comparison, columns)},
             .note = "Of the test texts, with the best checkpoint by the selection set; mean ± "
                     "standard deviation over seeds. Majority: always the commonest class of the "
                     "training texts."}};
  }

 private:
  /// The row's tests that the study asks for, in the study's order.
  json in_order(const FinishedRun& run, const json& row) const {
    std::vector<Tested> out;
    const auto have = tested_of(row, run.directory);
    for (const Task& task : tasks_)
      for (const Tested& one : have)
        if (!task.data.empty() && one.task == task.name && one.hash == hash_of(task, run))
          out.push_back(one);
    return list_json(out);
  }

  bool finetune(const FinishedRun& run, const Work& work, const TrainControl& control) const {
    const auto task = std::ranges::find(tasks_, work.asked["task"].get<std::string>(), &Task::name);
    const Recipe recipe = read_recipe(run.recipe);
    ops::set_threads(static_cast<int>(recipe.run.threads));
    FinetuneRecord record{
        .model = find_checkpoint(run.directory, run.checkpoint).directory.string(),
        .data = task->data,
        .task = task->format,
        .finetune = config_of(*task, run.seed)};
    if (!why_no_k(recipe.model).empty()) {
      // A study may have models with and without k. A model without k takes no settings of k.
      record.finetune.test_k.clear();
      record.finetune.train_k = record.finetune.selection_k = 0;
    }
    return finetune_run(record, work.directory, control) == RunOutcome::finished;
  }

  ConfigNode tables_;
  std::vector<std::string> order_;
  std::vector<Task> tasks_;
};

const RegisterMeasurement<Finetuning> registered("finetuning");

}  // namespace
}  // namespace penstock::study::finetuning
