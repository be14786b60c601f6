#include "penstock/study/finetune_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/finetune/learned.h"
#include "penstock/finetune/run.h"
#include "penstock/finetune/run_record.h"
#include "penstock/study/html.h"
#include "penstock/study/page.h"
#include "penstock/study/page_sections.h"
#include "penstock/study/smoothed.h"
#include "penstock/train/metrics_log.h"
#include "penstock/train/run_record.h"

namespace penstock::study {
namespace {

using nlohmann::json;

std::string percent_text(double share) { return fmt::format("{:.2f} %", 100 * share); }

json empty_series(const char* label, std::size_t colour) {
  return {
      {"variant", colour}, {"label", label}, {"steps", json::array()}, {"values", json::array()}};
}

void add_sample(json& line, const json& x, double y) {
  line["steps"].push_back(x);
  line["values"].push_back(y);
}

/// Loss of the batches, and accuracies on the texts set apart, over the steps.
json finetune_curves(const std::vector<nlohmann::ordered_json>& lines) {
  json loss = empty_series("training", 0), selection = empty_series("selection", 0);
  std::vector<double> losses;
  json steps = json::array();
  for (const auto& line : lines) {
    if (line.contains("loss") && line["loss"].is_number()) {
      steps.push_back(line.at("step").get<std::int64_t>());
      losses.push_back(line["loss"].get<double>());
    }
    if (line.contains("selection") && line["selection"].at("accuracy").is_number())
      add_sample(selection, line.at("step").get<std::int64_t>(),
                 100 * line["selection"]["accuracy"].get<double>());
  }
  loss["steps"] = steps;
  loss["values"] = smoothed(losses);
  json charts = json::array();
  const auto add = [&](const char* id, json line, const char* y_title, bool points) {
    if (line["steps"].empty()) return;
    const json last = line["steps"].back();
    charts.push_back({{"id", id},
                      {"series", json::array({std::move(line)})},
                      {"x_title", "step"},
                      {"y_title", y_title},
                      {"x_min", 0},
                      {"x_max", last},
                      {"points", points}});
  };
  add("loss", std::move(loss), "nats per text", false);
  add("selection", std::move(selection), "accuracy, %", true);
  return {{"charts", charts}};
}

/// What the run warned of, finished or not.
std::string finetune_warnings(const std::vector<nlohmann::ordered_json>& lines) {
  std::string out;
  for (const auto& warning : run_warnings(lines))
    out += "<p class=\"warning\">Warning: step " + warning.at("step").dump() + ": " +
           escape(warning.at("finding").get<std::string>()) + "; " +
           escape(warning.at("remedy").get<std::string>()) + "</p>";
  return out;
}

std::string finetune_test(const nlohmann::ordered_json& result) {
  std::string rows;
  for (const auto& point : result.at("by_k")) {
    const double accuracy = point.at("accuracy").get<double>();
    rows +=
        fmt::format("<tr><td>{}</td><td>{} ± {:.2f}</td><td>{:.4f}</td><td>{:.4f}</td></tr>",
                    point.at("k").is_null() ? "–" : point.at("k").dump(), percent_text(accuracy),
                    100 * accuracy_error(accuracy, point.at("texts").get<double>()),
                    point.at("macro_f1").get<double>(), point.at("loss").get<double>());
  }
  rows += "<tr><td>majority class</td><td>" +
          percent_text(result.at("majority_accuracy").get<double>()) +
          "</td><td></td><td></td></tr>";
  std::string out =
      "<h2>Test</h2><div class=\"card\"><div class=\"scroll\"><table><tr><th>experts per token</th>"
      "<th>accuracy</th><th>macro-F1</th><th>loss</th></tr>" +
      rows +
      "</table></div><p class=\"note\">± is half of the 95 % interval over the texts. The step was "
      "chosen on other texts; the test set was read once.</p></div>";
  for (const auto& note : result.at("notes"))
    out += "<p class=\"note\">Note: " + escape(note.get<std::string>()) + ".</p>";
  return out;
}

std::string finetune_settings(const FinetuneRecord& record) {
  std::string rows;
  const ConfigNode settings = write_config(record.finetune);
  for (const auto& [key, value] : settings.table()) {
    ConfigNode holder;
    holder.set("v", value);
    const std::string text = to_toml(holder);  // "v = 1\n"
    if (text.size() > 5)
      rows += "<tr><td>" + escape(key) + "</td><td>" + escape(text.substr(4, text.size() - 5)) +
              "</td></tr>";
  }
  return "<h2>Settings</h2><div class=\"card\"><div class=\"scroll\"><table>"
         "<tr><th>key</th><th>value</th></tr>" +
         rows + "</table></div></div>";
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
  const std::string title = "Fine-tuning: " + record.task;
  std::string body = "<h1>" + escape(title) + "</h1><dl class=\"facts\">" +
                     fact("Model", record.model) + fact("Data", record.data) +
                     fact("Seed", fmt::to_string(record.finetune.seed));
  if (!result.is_null())
    body += fact("Test texts", fmt::to_string(result.at("test_texts").get<std::int64_t>())) +
            fact("Best step", fmt::to_string(result.at("best_step").get<std::int64_t>()));
  const auto lines = penstock::read_metrics(real_file_system(), run_directory + "/metrics.jsonl");
  body += "</dl>" + finetune_warnings(lines);
  if (!result.is_null()) body += finetune_test(result);
  const json charts = finetune_curves(lines);
  const auto drawn = [&](const char* id) {
    return std::ranges::any_of(charts["charts"], [&](const json& one) { return one["id"] == id; });
  };
  std::string cards;
  if (drawn("loss")) cards += chart_card("loss", "Training loss", "Of the batches, smoothed.");
  if (drawn("selection"))
    cards += chart_card("selection", "Selection accuracy",
                        "On texts set apart from training; the highest chooses the checkpoint.");
  if (!cards.empty()) body += "<h2>Training</h2><div class=\"grid\">" + cards + "</div>";
  return page(title,
              body + finetune_settings(record) +
                  reproduce_section({.command = finetune_command(record, run_directory)}),
              charts);
}

}  // namespace penstock::study
