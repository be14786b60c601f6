#include "penstock/study/reported.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "penstock/study/columns.h"
#include "penstock/study/html.h"
#include "penstock/study/text_table.h"

namespace penstock::study {
namespace {

std::string percent(double value) { return fmt::format("{:.2f}", value); }

/// "sst2" at k = 8: "sst2-k8"; "sst2" where the model has no k.
std::string accuracy_name(const std::string& task, std::int64_t k) {
  return k > 0 ? fmt::format("{}-k{}", task, k) : task;
}

const Finetuned* finetuned_of(const RunRow& row, const std::string& task) {
  const auto it = std::ranges::find(row.finetuned, task, &Finetuned::task);
  return it == row.finetuned.end() ? nullptr : &*it;
}

struct TaskColumn {
  std::string task;
  std::int64_t k = 0;  // 0: the one value that models without a k have
};

/// Tasks in the order of the runs, each with every k that some run has.
std::vector<TaskColumn> task_columns(std::span<const VariantSummary> variants) {
  std::vector<std::string> tasks;
  std::map<std::string, std::set<std::int64_t>> ks;
  for (const auto& variant : variants)
    for (const RunRow* row : variant.rows)
      for (const auto& one : row->finetuned) {
        if (!ks.contains(one.task)) tasks.push_back(one.task);
        for (const auto& point : one.points) ks[one.task].insert(point.k);
      }
  std::vector<TaskColumn> out;
  for (const auto& task : tasks) {
    if (ks[task].size() > 1) ks[task].erase(0);
    for (const std::int64_t k : ks[task]) out.push_back({task, k});
  }
  return out;
}

Spread accuracy_at(const VariantSummary& variant, const TaskColumn& column) {
  std::vector<double> values;
  for (const RunRow* row : variant.rows)
    if (const Finetuned* one = finetuned_of(*row, column.task))
      if (const auto* point = one->at(column.k)) values.push_back(100 * point->accuracy);
  return spread(values);
}

/// "…and the end of the text", printable.
std::string shown_context(const std::string& text) {
  std::string out;
  for (const char c : text) out += c >= ' ' && c < 127 ? c : '.';
  return out.size() > 24 ? "…" + out.substr(out.size() - 24) : out;
}

const RouterReport* first_report(const VariantSummary& variant) {
  for (const RunRow* row : variant.rows)
    if (row->routers && !row->routers->samples.empty()) return &*row->routers;
  return nullptr;
}

}  // namespace

std::vector<ShownTable> finetune_tables(std::span<const VariantSummary> variants,
                                        const Comparison& comparison) {
  const auto columns = task_columns(variants);
  if (columns.empty()) return {};
  ShownTable out{.title = "Accuracy after fine-tuning, %",
                 .note =
                     "Of the test texts, with the best checkpoint by the selection set; mean ± "
                     "standard deviation over seeds. Majority: always the commonest class of "
                     "the training texts.",
                 .lines = {{"variant"}}};
  std::vector<std::string> majority{"majority class"};
  for (const auto& column : columns) {
    out.lines[0].push_back(column.task + (column.k > 0 ? fmt::format(" k={}", column.k) : ""));
    majority.emplace_back("–");
    for (const auto& variant : variants)
      for (const RunRow* row : variant.rows)
        if (const Finetuned* one = finetuned_of(*row, column.task))
          majority.back() = percent(100 * one->majority);
  }
  for (const auto& variant : variants) {
    auto& line = out.lines.emplace_back(1, variant.label);
    std::vector<std::string> paper{"  paper"};
    bool published = false;
    for (const auto& column : columns) {
      line.push_back(spread_text(accuracy_at(variant, column), percent));
      const auto number = published_number(comparison, variant.name,
                                           accuracy_name(column.task, column.k), column.task);
      published |= number.has_value();
      paper.push_back(number ? percent(*number) : "–");
    }
    if (published) out.lines.push_back(std::move(paper));
  }
  out.lines.push_back(std::move(majority));
  return {out};
}

std::vector<ShownTable> published_tables(std::span<const VariantSummary> variants,
                                         const Comparison& comparison) {
  if (comparison.published_as.empty() || variants.empty()) return {};
  ShownTable out{.title = "Beside the published results",
                 .note =
                     "The test split, or validation where there is no other; mean ± standard "
                     "deviation over seeds. What is published was measured otherwise.",
                 .lines = {{"variant", "loss", "perplexity", "bits per byte",
                            "published: " + comparison.published_as}}};
  for (const auto& variant : variants) {
    std::vector<double> loss, perplexity, bits;
    for (const RunRow* row : variant.rows)
      if (const auto& measured = row->test ? row->test : row->validation) {
        loss.push_back(measured->loss);
        perplexity.push_back(std::exp(measured->loss));
        bits.push_back(measured->bits_per_byte);
      }
    const auto number = published_number(comparison, variant.name, "result");
    const auto four = [](double value) { return fmt::format("{:.4f}", value); };
    out.lines.push_back({variant.label, spread_text(spread(loss), four),
                         spread_text(spread(perplexity), four), spread_text(spread(bits), four),
                         number ? fmt::format("{:g}", *number) : "–"});
  }
  return {out};
}

std::vector<ShownTable> entropy_tables(std::span<const VariantSummary> variants,
                                       const Comparison& comparison) {
  std::size_t layers = 0;
  std::set<std::string> places, refused;
  for (const auto& variant : variants)
    for (const RunRow* row : variant.rows)
      if (row->routers) {
        const RouterReport& report = *row->routers;
        layers = std::max(layers, report.layers.size());
        if (report.refused.empty())
          places.insert(fmt::format("{} split, {:.0f} tokens, {} checkpoint", report.split,
                                    report.tokens, report.checkpoint));
        else
          refused.insert(variant.label + ": not measured: " + report.refused);
      }
  if (layers == 0) return {};
  ShownTable out{.title = "Router entropy by layer, nats", .lines = {{"variant"}}};
  for (std::size_t l = 0; l < layers; ++l) out.lines[0].push_back(fmt::format("layer {}", l));
  for (const auto& variant : variants) {
    std::vector<std::string> now{variant.label}, before{"  at step 0"}, paper{"  paper"};
    bool measured = false, published = false;
    for (std::size_t l = 0; l < layers; ++l) {
      double mean = 0, sd = 0, initial_mean = 0, initial_sd = 0, n = 0;
      for (const RunRow* row : variant.rows)
        if (row->routers && l < row->routers->layers.size()) {
          const LayerEntropy& layer = row->routers->layers[l];
          mean += layer.mean;
          sd += layer.sd;
          initial_mean += layer.initial_mean;
          initial_sd += layer.initial_sd;
          ++n;
        }
      measured |= n > 0;
      const auto cell = [&](double a, double b) {
        return n > 0 ? fmt::format("{:.4f} ± {:.2f}", a / n, b / n) : "–";
      };
      now.push_back(cell(mean, sd));
      before.push_back(cell(initial_mean, initial_sd));
      const auto name = fmt::format("layer{}", l);
      const auto number = published_number(comparison, variant.name, name);
      const auto deviation = published_number(comparison, variant.name, name + "-sd");
      published |= number.has_value();
      paper.push_back(!number     ? "–"
                      : deviation ? fmt::format("{:.4f} ± {:.2f}", *number, *deviation)
                                  : fmt::format("{:.4f}", *number));
    }
    if (!measured) continue;
    out.lines.push_back(std::move(now));
    out.lines.push_back(std::move(before));
    if (published) out.lines.push_back(std::move(paper));
  }
  out.note =
      "Softmax of all logits, mean over the tokens ± standard deviation over the tokens; "
      "both are means over the seeds. Measured on: ";
  for (const auto& place : places) out.note += (place == *places.begin() ? "" : "; ") + place;
  for (const auto& one : refused) out.note += ". " + one;
  return {out};
}

std::string samples_text(std::span<const VariantSummary> variants) {
  std::vector<std::vector<std::string>> lines(
      1, {"variant", "token", "layer", "expert: probability in %, highest first"});
  for (const auto& variant : variants)
    if (const RouterReport* report = first_report(variant))
      for (const auto& sample : report->samples)
        for (std::size_t l = 0; l < sample.probabilities.size(); ++l) {
          const auto& p = sample.probabilities[l];
          std::vector<std::size_t> order(p.size());
          for (std::size_t e = 0; e < p.size(); ++e) order[e] = e;
          std::ranges::stable_sort(order, std::greater(), [&](std::size_t e) { return p[e]; });
          std::string list;
          for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), 6); ++i)
            list += fmt::format("{:>4}:{:5.1f}", order[i], 100 * p[order[i]]);
          lines.push_back({variant.label, shown_context(sample.context), fmt::to_string(l),
                           list + (order.size() > 6 ? " .." : "")});
        }
  return lines.size() < 2 ? "" : "Distributions at sample tokens, first seed:\n" + aligned(lines);
}

std::string samples_section(std::span<const VariantSummary> variants) {
  std::string cards;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const RouterReport* const report = first_report(variants[i]);
    if (!report) continue;
    HeatMap map{.digits = 0, .scale = 100, .unit = " %"};
    for (const auto& sample : report->samples)
      for (std::size_t l = 0; l < sample.probabilities.size(); ++l)
        map.rows.push_back({.name = fmt::format("layer {}", l),
                            .values = sample.probabilities[l],
                            .group = shown_context(sample.context)});
    for (std::size_t e = 0; e < map.rows.front().values.size(); ++e)
      map.columns.push_back(fmt::to_string(e));
    cards += "<div class=\"card\"><h3>" + dot(i) + escape(variants[i].label) + "</h3>" +
             heat_map(map) + "</div>";
  }
  if (cards.empty()) return "";
  return "<h2>Distributions at sample tokens</h2><div class=\"grid\">" + cards + "</div>" +
         heat_scale(1, "0 %", "100 %") +
         "<p class=\"note\">Softmax of all logits at tokens that are evenly spaced and not chosen, "
         "of each variant’s first seed.</p>";
}

namespace {

/// In the order in which terminal and page show them.
std::vector<ShownTable> all_tables(const StudyResults& results,
                                   std::span<const VariantSummary> variants) {
  std::vector<ShownTable> out = results.tables;
  for (const auto& tables : {published_tables, finetune_tables, entropy_tables})
    for (ShownTable& table : tables(variants, results.comparison)) out.push_back(std::move(table));
  return out;
}

}  // namespace

std::string reported_text(const StudyResults& results, std::span<const VariantSummary> variants) {
  std::string out;
  for (const auto& table : all_tables(results, variants)) out += "\n" + table_text(table);
  if (const std::string samples = samples_text(variants); !samples.empty()) out += "\n" + samples;
  return out;
}

std::string reported_sections(const StudyResults& results,
                              std::span<const VariantSummary> variants) {
  std::string out;
  for (const auto& table : all_tables(results, variants)) out += table_html(table);
  return out + samples_section(variants);
}

}  // namespace penstock::study
