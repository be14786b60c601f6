// The page of a fine-tuning run.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/eval/accuracy_interval.h"
#include "penstock/finetune/run_record.h"
#include "penstock/finetune/test_result.h"
#include "penstock/report/html.h"
#include "penstock/report/page.h"
#include "penstock/report/pages.h"
#include "penstock/report/sections.h"
#include "penstock/study/config/config_hash.h"
#include "penstock/study/statistics.h"
#include "penstock/train/metrics_log.h"
#include "penstock/train/run_record.h"

namespace penstock::report {

using namespace study;

namespace {

std::string percent_text(double share) { return fixed(2)(100 * share) + " %"; }

/// A chart with one line over the steps.
Chart chart(const char* id, const char* title, const char* caption, const char* line,
            const char* y_title, const Curve& curve, bool points) {
  return {.title = title,
          .caption = caption,
          .drawn = {{"id", id},
                    {"series", nlohmann::json::array({{{"variant", 0},
                                                       {"label", line},
                                                       {"steps", curve.steps},
                                                       {"values", curve.values}}})},
                    {"x_title", "step"},
                    {"y_title", y_title},
                    {"x_min", 0},
                    {"x_max", curve.steps.back()},
                    {"points", points}}};
}

/// The batches' loss and the accuracy on the selection texts, over the steps.
Section training(const std::vector<nlohmann::ordered_json>& lines) {
  Curve loss, selection;
  for (const auto& line : lines) {
    if (line.contains("loss") && line["loss"].is_number()) {
      loss.steps.push_back(line.at("step").get<double>());
      loss.values.push_back(line["loss"].get<double>());
    }
    if (line.contains("selection") && line["selection"].at("accuracy").is_number()) {
      selection.steps.push_back(line.at("step").get<double>());
      selection.values.push_back(100 * line["selection"]["accuracy"].get<double>());
    }
  }
  loss.values = smoothed(loss.values);
  Section out{.title = "Training"};
  if (!loss.steps.empty())
    out.charts.push_back(chart("loss", "Training loss", "Of the batches, smoothed.", "training",
                               "nats per text", loss, false));
  if (!selection.steps.empty())
    out.charts.push_back(
        chart("selection", "Selection accuracy",
              "On texts set apart from training; the highest chooses the checkpoint.", "selection",
              "accuracy, %", selection, true));
  return out;
}

/// The run's warnings, and the test's figures if there is a `result`.
Section test(const std::vector<nlohmann::ordered_json>& lines,
             const nlohmann::ordered_json& result) {
  Section out{.title = "Test"};
  for (const auto& warning : run_warnings(lines))
    out.remarks.push_back({"Warning: step " + warning.at("step").dump() + ": " +
                               warning.at("finding").get<std::string>() + "; " +
                               warning.at("remedy").get<std::string>(),
                           Tone::warning});
  if (result.is_null()) return out;
  Table table{.columns = {"experts per token", "accuracy", "95 % interval", "macro-F1", "loss"}};
  for (const auto& point : result.at("by_k")) {
    const double accuracy = point.at("accuracy").get<double>();
    const AccuracyInterval interval =
        accuracy_interval(accuracy, std::max(1.0, point.at("texts").get<double>()));
    table.rows.push_back(
        {{point.at("k").is_null() ? "–" : point.at("k").dump(), percent_text(accuracy),
          fixed(2)(100 * interval.low) + " to " + percent_text(interval.high),
          fixed(4)(point.at("macro_f1").get<double>()), fixed(4)(point.at("loss").get<double>())}});
  }
  table.rows.push_back(
      {{"majority class", percent_text(result.at("majority_accuracy").get<double>()), "", "", ""}});
  table.note =
      "The interval is over the texts (Wilson). The step was chosen on other texts; the test set "
      "was read once.";
  out.tables.push_back(std::move(table));
  for (const auto& note : result.at("notes"))
    out.note += (out.note.empty() ? "Note: " : " Note: ") + note.get<std::string>() + ".";
  return out;
}

std::string finetune_settings(const FinetuneRecord& record) {
  Table table{.columns = {"key", "value"}};
  for (const auto& [key, value] : flatten(write_config(record.finetune)))
    table.rows.push_back({{key, value}});
  return section_html({.title = "Settings", .tables = {std::move(table)}});
}

}  // namespace

std::string finetune_page(const std::string& run_directory) {
  const FinetuneRecord record = read_finetune_record(run_directory);
  const std::string path = run_directory + "/" + kFinetuneResult;
  nlohmann::ordered_json result;
  if (std::filesystem::exists(path)) {
    result = nlohmann::ordered_json::parse(real_file_system().read(path), nullptr, false);
    PENSTOCK_CHECK(result.is_object() && result.contains("by_k"), path,
                   ": is damaged; delete it and resume the run, which tests again");
  }
  const std::string title = "Fine-tuning: " + std::string(word(record.task));
  Facts facts{{"Model", record.model},
              {"Data", record.data},
              {"Seed", fmt::to_string(record.finetune.seed)}};
  if (!result.is_null()) {
    facts.emplace_back("Test texts", result.at("test_texts").dump());
    facts.emplace_back("Best step", result.at("best_step").dump());
  }
  const auto lines = penstock::read_metrics(real_file_system(), run_directory + "/metrics.jsonl");
  const Section trained = training(lines);
  return page(title,
              heading(title, "", facts) + section_html(test(lines, result)) +
                  section_html(trained) + finetune_settings(record) +
                  reproduce_section({.command = finetune_command(record, run_directory)}),
              drawn_by_script(trained.charts));
}

}  // namespace penstock::report
