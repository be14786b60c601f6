// Training of runs and studies from Python. A Python callback can follow a run and stop it.
#include <ATen/Parallel.h>

#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "penstock/cli/arguments/output_path.h"
#include "penstock/cli/processes/one_process.h"
#include "penstock/io/toml.h"
#include "penstock/ops/dispatch.h"
#include "penstock/report/pages.h"
#include "penstock/report/report.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/study/study_runner.h"
#include "penstock/study/tables/text_samples.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/run.h"
#include "python/bindings.h"

namespace penstock::python {
namespace {

/// Dotted keys and the values that override theirs.
using Overrides = std::vector<std::pair<std::string, ConfigNode>>;

/// Adds the override of a key. A dict overrides the keys that it has, and leaves the others of its
/// table.
void add_override(const std::string& key, const ConfigNode& value, Overrides& out) {
  PENSTOCK_CHECK(!value.empty(), "set ", key,
                 ": expected a bool, number, str, list or dict, found None; leave the key out");
  if (value.is_table()) {
    for (const auto& [name, below] : value.table()) add_override(key + "." + name, below, out);
  } else {
    out.emplace_back(key, value);
  }
}

/// The overrides in the argument `set`, in its order.
Overrides overrides_of(const py::dict& set) {
  Overrides out;
  for (const auto& [key, value] : set) {
    const std::string name = text_of(key, "a key of set");
    add_override(name, to_config(value, "set " + name), out);
  }
  return out;
}

/// The recipe from a file or from Python dicts, with the overrides in `set` applied.
ConfigNode recipe_of(const py::object& recipe, const py::dict& set) {
  ConfigNode node = py::isinstance<py::dict>(recipe) ? to_config(recipe, "")
                                                     : read_toml(text_of(recipe, "recipe"));
  for (const auto& [key, value] : overrides_of(set)) node.set(key, value);
  return node;
}

/// The run's log hook. It calls Python and keeps the exception that Python raised.
class Callback {
 public:
  explicit Callback(const py::object& on_step) : on_step_(on_step) {}

  /// Passes a line of the log to Python. @return false if the run must stop
  bool hear(const nlohmann::ordered_json& line) {
    const WithGil gil;
    try {
      call_python(on_step_, to_python(line));
      return true;
    } catch (const py::error_already_set& error) {
      asked_ = error.matches(PyExc_StopIteration);
      if (!asked_) raised_ = std::current_exception();
    } catch (...) {
      raised_ = std::current_exception();
    }
    return false;
  }
  void throw_raised() {
    if (raised_) std::rethrow_exception(std::exchange(raised_, nullptr));
  }
  bool asked() const { return asked_; }

 private:
  const py::object& on_step_;
  bool asked_ = false;
  std::exception_ptr raised_;
};

/// Restores the number of threads when a run ends. During the run, the recipe sets the number.
class ThreadsOfBefore {
 public:
  ThreadsOfBefore() : threads_(at::get_num_threads()) {}
  ~ThreadsOfBefore() { at::set_num_threads(threads_); }
  ThreadsOfBefore(const ThreadsOfBefore&) = delete;
  ThreadsOfBefore& operator=(const ThreadsOfBefore&) = delete;

 private:
  int threads_;
};

[[noreturn]] void throw_interrupted(const std::string& message) {
  check_python_goes_on();
  PyErr_SetString(PyExc_KeyboardInterrupt, message.c_str());
  throw py::error_already_set();
}

/// Trains a run. @return true if the run is finished, false if the callback ended it
bool train(const py::object& recipe, const std::string& path, const py::dict& set,
           const py::object& on_step, bool resume, bool progress, bool force) {
  check_one_process("train");
  const std::string out = output_path(path, "out");
  const ConfigNode node = recipe_of(recipe, set);
  check_can_make(out);
  Callback callback(on_step);
  TrainControl control{.resume = resume, .quiet = !progress, .force = force};
  if (!on_step.is_none())
    control.logged = [&](const nlohmann::ordered_json& line) { return callback.hear(line); };
  RunOutcome outcome = RunOutcome::interrupted;
  {
    const WithoutGil released;
    const ThreadsOfBefore threads;
    static std::once_flag once;
    std::call_once(once, ops::keep_freed_memory);
    outcome = train_run(node, out, control);
    if (outcome == RunOutcome::finished && read_recipe(node).run.report) {
      study::write_text_samples(out);
      report::write_run_report(out);
    }
  }
  callback.throw_raised();
  if (outcome == RunOutcome::interrupted && !callback.asked())
    throw_interrupted(out +
                      ": interrupted; the last complete step is saved, and resume=True goes on");
  return outcome == RunOutcome::finished;
}

/// Trains, measures and writes pages as `penstock study` does. Returns the study's results.
py::object run_study(const std::string& path, const std::string& out, const py::dict& set,
                     const std::string& scale, const std::string& kept_rows, bool report_only,
                     bool retry_diverged, bool progress, bool force) {
  check_one_process("study");
  std::vector<std::string> overrides;
  for (const auto& [key, value] : overrides_of(set))
    overrides.push_back(key + "=" + toml_text(value, "set " + key));
  const auto config = study::read_study(path, overrides, scale);
  std::FILE* const stream = progress ? stderr : nullptr;
  const study::StudyOptions how{
      .output = out.empty() ? study::default_output(config) : output_path(out, "out"),
      .kept_rows = kept_rows,
      .command = "penstock.study",
      .report_only = report_only,
      .retry_diverged = retry_diverged,
      .progress = stream};
  check_can_make(how.output);
  check_can_write(how.kept_rows);
  study::StudyHooks hooks = study::training_hooks(stream, force);
  hooks.write_pages = report::write_study_pages;
  hooks.write_run_page = [](const std::string& directory) { report::write_report(directory); };
  const study::StudyOutcome outcome = [&] {
    const WithoutGil released;
    const ThreadsOfBefore threads;
    return study::run_study(config, how, hooks);
  }();
  if (outcome.interrupted)
    throw_interrupted(how.output + ": interrupted; the state is saved, and the same call goes on");
  return py::make_tuple(how.output, to_python(study::to_json(outcome.results)),
                        report::results_text(outcome.results));
}

}  // namespace

void add_training(py::module_& module) {
  module.def("train", &train, py::arg("recipe"), py::arg("out"), py::arg("set"), py::arg("on_step"),
             py::arg("resume"), py::arg("progress"), py::arg("force"));
  module.def("run_study", &run_study, py::arg("path"), py::arg("out"), py::arg("set"),
             py::arg("scale"), py::arg("kept_rows"), py::arg("report_only"),
             py::arg("retry_diverged"), py::arg("progress"), py::arg("force"));
}

}  // namespace penstock::python
