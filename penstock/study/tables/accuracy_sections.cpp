#include "penstock/study/tables/accuracy_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "penstock/study/runs/results.h"
#include "penstock/study/tables/answered_task.h"

namespace penstock::study {
namespace {

/// The task of "task@version".
std::string task_of(const std::string& named) { return named.substr(0, named.find('@')); }

/// The task's name, with its version if the study has several versions.
std::string title_of(const std::string& named, const std::vector<std::string>& all) {
  return std::ranges::count(all, task_of(named), task_of) == 1 ? task_of(named) : named;
}

std::string percent(double share) { return fixed(2)(100 * share); }

/// Mean and standard deviation over runs; for a single run, its 95 % interval over the items.
Cell accuracy_cell(const std::vector<AnsweredTask>& runs) {
  if (runs.size() == 1 && runs[0].acc_low && runs[0].acc_high)
    return {percent(runs[0].acc),
            fmt::format("[{}, {}]", percent(*runs[0].acc_low), percent(*runs[0].acc_high))};
  std::vector<double> values;
  for (const AnsweredTask& run : runs) values.push_back(run.acc);
  return spread_cell(spread(values), percent);
}

/// The runs' results of the task, without refusals.
std::vector<AnsweredTask> answers_to(const std::string& named,
                                     const std::vector<const RunRow*>& rows) {
  std::vector<AnsweredTask> out;
  for (const RunRow* row : rows)
    for (const AnsweredTask& one : answered_tasks(row->measured, row->variant))
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
      const std::vector<AnsweredTask> runs = answers_to(names[c], variants[i].rows);
      for (const AnsweredTask& one : runs) {
        if (one.guess) guessing.cells[c + 1] = percent(*one.guess);
        if (one.acc_low && one.acc_high)
          widest[c] = std::max({widest[c], one.acc - *one.acc_low, *one.acc_high - one.acc});
        if (widest[c] > 0) reach.cells[c + 1] = "± " + percent(widest[c]);
      }
      row.cells.push_back(accuracy_cell(runs));
      const auto number = published_number(comparison, variants[i].name, task_of(names[c]));
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
      for (const AnsweredTask& one : answered_tasks(row.measured, row.variant))
        told |= one.named() == name && (!one.is_guessing || !one.refused.empty());
    if (!told) out += (out.empty() ? "" : ", ") + title_of(name, names);
  }
  return out.empty() ? "" : "No run can be told from guessing on: " + out + ".";
}

}  // namespace

std::vector<Section> accuracy_sections(std::span<const RunRow> rows, const Comparison& comparison) {
  std::vector<std::string> names;
  for (const RunRow& row : rows)
    for (const AnsweredTask& one : answered_tasks(row.measured, row.variant))
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
    for (const AnsweredTask& one : answered_tasks(row.measured, row.variant))
      if (!one.refused.empty())
        refused.insert(row.label + ", " + one.task + ": not asked: " + one.refused);
  for (const auto& text : refused) out.remarks.push_back({.text = text, .tone = Tone::warning});
  return {out};
}

}  // namespace penstock::study
