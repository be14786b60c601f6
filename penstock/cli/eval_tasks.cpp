#include "penstock/cli/eval_tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/base/json_text.h"
#include "penstock/base/progress.h"
#include "penstock/base/stopwatch.h"
#include "penstock/cli/arguments/model_argument.h"
#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/arguments/tokenizer_argument.h"
#include "penstock/cli/eval_text.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/eval/by_k.h"
#include "penstock/models/files/fingerprint.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/fold_routers.h"
#include "penstock/tasks/catalogue.h"
#include "penstock/tasks/compare.h"
#include "penstock/tasks/evaluate.h"

namespace penstock {
namespace {

using tasks::EvaluatedTask;
using tasks::LoadedTask;
using tasks::TaskResult;

/// A model with the data that its evaluation needs.
struct TaskModel {
  ModelArgument argument;
  std::shared_ptr<LanguageModel> model;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::int64_t k = 0;
  std::vector<tasks::TaskTokens> requests;  ///< the requests of each task
  std::string identity;                     ///< which model and settings the kept answers are of
};

std::string kept_answers(const EvalTasksOptions& options) { return options.items + ".part"; }

tasks::EvaluateTaskOptions how(const EvalTasksOptions& options, std::int64_t k) {
  return {.sequence_length = options.sequence_length, .scoring = {.k = k}};
}

/// Opens the model and makes its requests. A mistake is reported before any model runs.
TaskModel open_model(const std::string& path, const EvalTasksOptions& options,
                     const std::vector<LoadedTask>& loaded) {
  return with_model(path, [&](const ModelArgument& argument) {
    const std::shared_ptr<const ModelSource> source = open_model_source(argument.path);
    const ModelConfig& config = source->config();
    // `compare` may be a dense model, which has no routers.
    const bool routed = path != options.compare || config.moe_layers() > 0;
    if (routed && options.k > 0) check_k_values(config, {&options.k, 1});
    TaskModel out{.argument = argument, .k = routed ? options.k : 0};
    out.tokenizer = model_tokenizer(*source, options.tokenizer);
    note_beyond_context(config, options.sequence_length);
    for (const LoadedTask& task : loaded)
      out.requests.push_back(encode_task(config, *out.tokenizer, task, how(options, out.k)));
    const bool folded = routed && options.fold;
    if (!options.items.empty())
      out.identity = fmt::format("{}, k {}{}{}", fingerprint(*source), out.k,
                                 folded ? ", folded" : "", options.f64 ? ", f64" : "");
    out.model =
        load_for_inference(source, folded || options.f64 ? Weights::as_f32 : Weights::in_place);
    if (options.f64) out.model->to(at::kDouble);
    if (folded) out.model = fold_routers(*out.model);
    return out;
  });
}

/// Loads all tasks with their items, so that a mistake in the last task is reported before the
/// first task runs.
std::vector<LoadedTask> load_tasks(const EvalTasksOptions& options) {
  std::vector<LoadedTask> out;
  const auto load = [&](tasks::Task task, const std::string& directory) {
    out.push_back(load_task(std::move(task),
                            {.directory = directory,
                             .limit = static_cast<std::size_t>(options.limit),
                             .shots = {.count = static_cast<std::size_t>(options.fewshot),
                                       .seed = static_cast<std::uint64_t>(options.fewshot_seed)}}));
  };
  for (tasks::Task& task : tasks::find_tasks(options.tasks, options.protocol)) {
    PENSTOCK_CHECK(!options.data.empty(), "task ", task.name,
                   ": say where its data is: --task-data DIR, a folder with one of ",
                   joined(task.files), how_to_fetch(task, "DIR"));
    load(std::move(task), options.data);
  }
  for (const std::string& file : options.files) {
    tasks::Task task = tasks::read_task(file);
    const std::string folder = data_folder(task, options.data);
    load(std::move(task), folder);
  }
  std::set<std::string> names;
  for (const LoadedTask& one : out) {
    const std::string name = tasks::versioned_name(one.task.name, one.task.version);
    PENSTOCK_CHECK(names.insert(name).second, "there are two tasks named ", name,
                   "; give one of them another name or version");
  }
  return out;
}

/// The log that keeps answers until the items are written; none where no items are written.
std::unique_ptr<tasks::AnswerLog> open_log(const EvalTasksOptions& options,
                                           const std::vector<LoadedTask>& loaded,
                                           std::initializer_list<const TaskModel*> models) {
  if (options.items.empty()) return nullptr;
  std::vector<tasks::AskedTask> asked;
  for (const TaskModel* model : models)
    for (std::size_t i = 0; model && i < loaded.size(); ++i)
      asked.push_back(asked_task(loaded[i], model->requests[i], model->identity));
  auto out = std::make_unique<tasks::AnswerLog>(kept_answers(options), asked);
  if (out->taken_up() > 0)
    print_line(stderr,
               grouped(out->taken_up()) + " answers of an earlier, interrupted run are taken up");
  return out;
}

/// Evaluates one model on all tasks, with a line of progress.
std::vector<EvaluatedTask> evaluate(TaskModel& opened, const std::vector<LoadedTask>& loaded,
                                    const EvalTasksOptions& options, tasks::AnswerLog* log,
                                    std::size_t first_place) {
  ProgressLine progress(options.json ? nullptr : stderr);
  std::vector<EvaluatedTask> out;
  for (std::size_t i = 0; i < loaded.size(); ++i) {
    const LoadedTask& task = loaded[i];
    const Stopwatch watch;
    const auto n = static_cast<double>(task.items.items.size());
    const auto show = [&](double done) {
      if (!progress.due()) return;
      const double seconds = watch.seconds();
      progress.show(fmt::format("{}  {:3.0f}%  {:.0f} items/s  {} left", task.task.name, 100 * done,
                                n * done / seconds, duration_text(seconds * (1 - done) / done)));
    };
    tasks::EvaluateTaskOptions shown = how(options, opened.k);
    shown.scoring.progress = show;
    shown.log = log;
    shown.place = first_place + i;
    out.push_back(
        evaluate_task(opened.model, *opened.tokenizer, task, std::move(opened.requests[i]), shown));
  }
  progress.finish();
  return out;
}

std::string named(const TaskResult& result) {
  return tasks::versioned_name(result.name, result.version);
}

std::string accuracy_text(const std::optional<tasks::Accuracy>& accuracy) {
  if (!accuracy) return "";
  return fmt::format("{:.4f} [{:.3f}, {:.3f}]", accuracy->mean, accuracy->low, accuracy->high);
}

void print_results(const std::vector<EvaluatedTask>& evaluated) {
  fmt::print("{:<28} {:>6} {:>23} {:>23} {:>10} {:>7}\n", "task", "items", "acc [95 %]",
             "acc_norm [95 %]", "perplexity", "guess");
  for (const EvaluatedTask& one : evaluated) {
    const TaskResult& r = one.result;
    fmt::print("{:<28} {:>6} {:>23} {:>23} {:>10} {:>7}{}\n", named(r), grouped(r.n),
               accuracy_text(r.acc), accuracy_text(r.acc_norm),
               r.perplexity ? fmt::format("{:.4g}", *r.perplexity) : "",
               r.guess ? fmt::format("{:.3f}", *r.guess) : "",
               r.is_guessing() ? "  not told from guessing" : "");
  }
}

void print_notes(const std::vector<EvaluatedTask>& evaluated) {
  for (const EvaluatedTask& one : evaluated) {
    const TaskResult& r = one.result;
    if (!r.note.empty()) fmt::print("note: {}: {}\n", named(r), r.note);
    if (r.left_out > 0)
      fmt::print("note: {}: {} rows are no items of the task and were left out\n", named(r),
                 grouped(r.left_out));
  }
}

void print_differences(const std::vector<EvaluatedTask>& a, const std::vector<EvaluatedTask>& b) {
  fmt::print("\n{:<28} {:>8} {:>20} {:>8} {:>8} {:>10}\n", "second less first", "acc", "[95 %]",
             "only 1st", "only 2nd", "McNemar p");
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto d = tasks::compare(a[i].result, b[i].result);
    fmt::print("{:<28} {:>+8.4f} {:>20} {:>8} {:>8} {:>10.3g}{}\n", named(a[i].result),
               d.difference, fmt::format("[{:+.4f}, {:+.4f}]", d.low, d.high), d.only_a, d.only_b,
               d.p, d.p > 0.05 ? "  no difference shown" : "");
  }
}

nlohmann::ordered_json results_json(const std::vector<EvaluatedTask>& evaluated) {
  auto out = nlohmann::ordered_json::object();
  for (const EvaluatedTask& one : evaluated) {
    const bool twice = out.contains(one.result.name);
    out[twice ? named(one.result) : one.result.name] = to_json(one.result);
  }
  return out;
}

void write_items(const EvalTasksOptions& options, const std::vector<LoadedTask>& loaded,
                 const std::vector<EvaluatedTask>& evaluated) {
  if (options.items.empty()) return;
  std::string lines;
  for (std::size_t i = 0; i < loaded.size(); ++i) lines += item_lines(loaded[i], evaluated[i]);
  write_file_atomically(real_file_system(), options.items, lines);
}

void print_json(const EvalTasksOptions& options, const std::vector<EvaluatedTask>& first,
                const TaskModel& model, const std::vector<EvaluatedTask>& second) {
  nlohmann::ordered_json out = {
      {"model", model.argument.path},
      {"step", model.argument.step ? nlohmann::ordered_json(*model.argument.step)
                                   : nlohmann::ordered_json()},
      {"folded", options.fold},
      {"dtype", options.f64 ? "f64" : "f32"},
      {"k", options.k > 0 ? nlohmann::ordered_json(options.k) : nlohmann::ordered_json()},
      {"tasks", results_json(first)}};
  if (!second.empty()) {
    out["compare"] = {{"model", options.compare}, {"tasks", results_json(second)}};
    for (std::size_t i = 0; i < first.size(); ++i)
      out["compare"]["differences"][named(first[i].result)] =
          to_json(tasks::compare(first[i].result, second[i].result));
  }
  fmt::print("{}\n", json_text(out, 2));
}

void check_overwrites_nothing_read(const EvalTasksOptions& options,
                                   const std::vector<LoadedTask>& loaded) {
  if (options.items.empty()) return;
  std::vector<std::string> read = options.files;
  read.insert(read.end(), {options.model, options.compare, options.tokenizer});
  for (const LoadedTask& one : loaded) read.insert(read.end(), one.files.begin(), one.files.end());
  for (const std::string& file : read)
    if (!file.empty()) check_overwrites_no_input(options.items, file);
}

}  // namespace

void run_eval_tasks(const EvalTasksOptions& options) {
  check_can_write(options.items);
  const EndOnSignal guard(
      options.items.empty() ? kNothingWritten
                            : "interrupted; what was answered is kept in " + kept_answers(options) +
                                  ": run the same command again to go on from there",
      {temporary_path(options.items)});
  const std::vector<LoadedTask> loaded = load_tasks(options);
  check_overwrites_nothing_read(options, loaded);
  TaskModel model = open_model(options.model, options, loaded);
  std::optional<TaskModel> other;
  if (!options.compare.empty()) other = open_model(options.compare, options, loaded);
  const auto log = open_log(options, loaded, {&model, other ? &*other : nullptr});
  const std::vector<EvaluatedTask> first = evaluate(model, loaded, options, log.get(), 0);
  std::vector<EvaluatedTask> second;
  if (other) second = evaluate(*other, loaded, options, log.get(), loaded.size());
  write_items(options, loaded, first);
  if (log) log->remove();
  if (options.json) return print_json(options, first, model, second);
  fmt::print("{}{}, protocol {}{}\n", model.argument.path, options.fold ? ", routers folded" : "",
             word(loaded.front().task.protocol),
             options.fewshot > 0 ? fmt::format(", {}-shot", options.fewshot) : "");
  print_results(first);
  if (!second.empty()) {
    fmt::print("\n{}\n", options.compare);
    print_results(second);
    print_differences(first, second);
  }
  print_notes(first);
  print_choice_note(model.model->config());
}

namespace {

nlohmann::ordered_json tasks_json() {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const tasks::TaskProtocol protocol : tasks::kTaskProtocols) {
    nlohmann::ordered_json& of_protocol = out[std::string(word(protocol))];
    of_protocol = {{"tasks", nlohmann::ordered_json::array()},
                   {"groups", nlohmann::ordered_json::object()}};
    for (const tasks::Task& task : tasks::all_tasks(protocol)) {
      std::vector<std::string> metrics;
      for (const tasks::Metric metric : task.metrics) metrics.emplace_back(word(metric));
      of_protocol["tasks"].push_back({{"name", task.name},
                                      {"version", task.version},
                                      {"metrics", metrics},
                                      {"source", task.source},
                                      {"data_sets", task.data_sets}});
    }
    for (const tasks::Group& group : tasks::all_groups(protocol))
      of_protocol["groups"][group.name] = group.tasks;
  }
  return out;
}

}  // namespace

void list_tasks(bool json) {
  if (json) return fmt::print("{}\n", json_text(tasks_json(), 2));
  for (const tasks::TaskProtocol protocol : tasks::kTaskProtocols) {
    fmt::print("protocol {}\n", word(protocol));
    for (const tasks::Task& task : tasks::all_tasks(protocol)) {
      std::vector<std::string_view> metrics;
      for (const tasks::Metric metric : task.metrics) metrics.push_back(word(metric));
      fmt::print("  {:<28} {:<20} {}\n", tasks::versioned_name(task.name, task.version),
                 joined(metrics), task.source);
    }
    for (const tasks::Group& group : tasks::all_groups(protocol))
      fmt::print("  {:<28} {}\n", group.name, joined(group.tasks));
  }
}

}  // namespace penstock
