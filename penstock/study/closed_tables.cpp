#include "penstock/study/closed_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "penstock/analysis/published_tables.h"
#include "penstock/base/fields.h"
#include "penstock/finetune/config.h"
#include "penstock/study/config_hash.h"

namespace penstock::study {

const std::vector<ShownSetting> kShownSettings = {
    {"layers", "layers", "model.layers"},
    {"d_model", "width", "model.d_model"},
    {"d_ffn", "FFN width", "model.d_ffn"},
    {"experts", "experts", "model.moe.experts"},
    {"sequence_length", "input length", "train.sequence_length"},
    {"batch_sequences", "batch size", "train.batch_sequences"},
    {"lr", "lr", "train.lr"},
    {"steps", "iterations", "train.steps"},
};

namespace {

using Settings = std::map<std::string, std::string>;

/// Decoupled or coupled decay has a name of its own; without decay both are Adam.
std::string optimizer(const Settings& settings, const std::string& prefix) {
  const std::string decay = plain_setting(settings, prefix + "weight_decay");
  const bool none = decay.empty() || std::stod(decay) == 0;
  return none || plain_setting(settings, prefix + "decay") == "coupled" ? "Adam" : "AdamW";
}

/// As people write it: "0.0001" for the file's "1e-04".
std::string shown_setting(const Settings& settings, const std::string& key) {
  const std::string text = plain_setting(settings, key);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? fmt::format("{:g}", number) : text;
}

std::string paper_cell(const std::map<std::string, double>& numbers, const std::string& name) {
  const auto it = numbers.find(name);
  return it == numbers.end() ? "–" : fmt::format("{:g}", it->second);
}

ShownTable recipe_settings(const StudyConfig& study,
                           const std::function<ConfigNode(const ConfigNode&)>& resolve) {
  ShownTable out{.title = "Settings", .lines = {{"", "corpus"}}};
  for (const auto& setting : kShownSettings) out.lines[0].push_back(setting.title);
  out.lines[0].emplace_back("optimizer");
  for (const auto& variant : study.variants) {
    const Settings settings = flatten(resolve(variant.recipe));
    auto& line = out.lines.emplace_back();
    line = {variant.label, plain_setting(settings, "data.corpus")};
    for (const auto& setting : kShownSettings) line.push_back(shown_setting(settings, setting.key));
    line.push_back(optimizer(settings, "train."));
    const auto paper = study.comparison.published.find(variant.name);
    if (paper == study.comparison.published.end()) continue;
    auto& below = out.lines.emplace_back();
    below = {"  paper", "–"};
    for (const auto& setting : kShownSettings)
      below.push_back(paper_cell(paper->second, setting.name));
    below.emplace_back("–");
  }
  return out;
}

ShownTable finetune_settings(const StudyConfig& study) {
  const std::vector<std::pair<std::string, std::string>> columns = {
      {"sequence_length", "input length"},
      {"batch", "batch size"},
      {"lr", "lr"},
      {"epochs", "epochs"}};
  ShownTable out{.title = "Settings of the fine-tunings", .lines = {{"", "data"}}};
  for (const auto& [key, title] : columns) out.lines[0].push_back(title);
  out.lines[0].emplace_back("optimizer");
  for (const auto& task : study.finetunes) {
    const Settings settings = flatten(write_config(read_finetune_config(task.settings)));
    auto& line = out.lines.emplace_back();
    line = {task.label, task.data};
    for (const auto& [key, title] : columns) line.push_back(shown_setting(settings, key));
    line.push_back(optimizer(settings, ""));
    if (task.published.empty()) continue;
    auto& below = out.lines.emplace_back();
    below = {"  paper", "–"};
    for (const auto& [key, title] : columns) below.push_back(paper_cell(task.published, key));
    below.emplace_back("–");
  }
  return out;
}

ShownTable closed_form(const std::string& name) {
  const analysis::PublishedTable table = analysis::published_table(name);
  ShownTable out{
      .title = fmt::format("HyperRouter, Table {}: {} ({})", table.name, table.title, table.unit),
      .lines = {{"", "method", "published", "closed form", "useful", "remark"}}};
  for (const auto& cell : table.cells)
    out.lines.push_back({cell.row, cell.column,
                         fmt::format("{:.{}f}", cell.published, table.digits),
                         fmt::format("{:.{}f}", cell.computed, table.digits + 2),
                         fmt::format("{:.{}f}", cell.useful, table.digits + 2),
                         cell.agrees ? "agrees" : cell.remark});
  return out;
}

}  // namespace

std::vector<ShownTable> closed_tables(const StudyConfig& study,
                                      const std::function<ConfigNode(const ConfigNode&)>& resolve) {
  std::vector<ShownTable> out;
  for (const auto& what : study.report) {
    if (what == "A3" || what == "A4") out.push_back(closed_form(what));
    if (what != "settings") continue;
    if (!study.variants.empty()) out.push_back(recipe_settings(study, resolve));
    if (!study.finetunes.empty()) out.push_back(finetune_settings(study));
  }
  return out;
}

}  // namespace penstock::study
