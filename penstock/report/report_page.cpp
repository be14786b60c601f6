// Puts the pages of studies and runs together from their sections.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/base/progress.h"
#include "penstock/models/model_config.h"
#include "penstock/report/html.h"
#include "penstock/report/page.h"
#include "penstock/report/report.h"
#include "penstock/report/sections.h"
#include "penstock/study/config/config_hash.h"
#include "penstock/study/runs/equal_compute.h"
#include "penstock/study/tables/by_k_summary.h"

namespace penstock::report {

using namespace study;

namespace {

std::string header(const StudyResults& results) {
  std::set<std::string> corpora, machines, dates;
  std::set<std::int64_t> seeds;
  double seconds = 0, peak = 0;
  for (const auto& row : results.rows) {
    corpora.insert(plain_setting(row.settings, "data.corpus"));
    machines.insert(row.machine);
    dates.insert(row.finished_at);
    seeds.insert(row.seed);
    seconds += row.seconds;
    peak = std::max(peak, row.peak_flops);
  }
  for (auto* words : {&corpora, &machines, &dates}) words->erase("");
  if (dates.size() > 1) dates = {*dates.begin() + " to " + *dates.rbegin()};
  const auto done = std::ranges::count_if(results.rows, &RunRow::finished);
  const auto planned = std::max<std::ptrdiff_t>(results.planned_runs, done);
  std::string runs =
      fmt::format("{}{} finished", done, done == planned ? "" : fmt::format(" of {}", planned));
  if (!results.diverged.empty()) runs += fmt::format(", {} diverged", results.diverged.size());
  return heading(results.title, results.claim,
                 {{"Data", joined(corpora)},
                  {"Seeds", fmt::format("{}", fmt::join(seeds, ", "))},
                  {"Scale", results.scale},
                  {"Runs", planned == 0 ? "" : runs},
                  {"Training time", seconds > 0 ? duration_text(seconds) : ""},
                  {"Machine", joined(machines)},
                  {"Measured peak", peak > 0 ? with_prefix(peak, "FLOP/s") : ""},
                  {"Date", joined(dates)}});
}

std::string run_header(const RunRow& run) {
  std::string steps = fmt::to_string(run.steps);
  if (!run.finished)
    steps += " of " + plain_setting(run.settings, "train.steps") + ", not finished";
  return heading(
      run.label, plain_setting(run.settings, "description"),
      {{"Data", plain_setting(run.settings, "data.corpus")},
       {"Seed", fmt::to_string(run.seed)},
       {"Steps", steps},
       {"Training time", run.seconds > 0 ? duration_text(run.seconds) : ""},
       {"Machine", run.machine},
       {"Measured peak", run.peak_flops > 0 ? with_prefix(run.peak_flops, "FLOP/s") : ""},
       {"Date", run.finished_at}});
}

/// The results, with the explanations of the page.
Section explained_results(Variants variants, const StudyResults& results) {
  Section out = results_section(variants, results);
  out.title = "Results";
  out.note = "Mean ± standard deviation over seeds. Losses are nats per token.";
  if (may_be_tinted(variants, results.comparison))
    out.note +=
        " The tinted cell is the lowest mean of its column, which by itself says nothing about "
        "significance.";
  return out;
}

/// Adds the trainer's warnings of each run, and remarks on routing that is not causal.
void add_warnings(Section& section, Variants variants) {
  for (const auto& variant : variants)
    for (const RunRow* row : variant.rows)
      for (const auto& warning : row->warnings)
        section.remarks.push_back(
            {"Warning" +
                 (one_run(variants) ? ""
                                    : fmt::format(" of {}, seed {}", variant.label, row->seed)) +
                 ": " + warning,
             Tone::warning});
  if (!std::ranges::all_of(variants, &VariantSummary::causal))
    section.remarks.push_back({"Not causal: " + std::string(kNotCausal) + "."});
  if (std::ranges::any_of(variants, &VariantSummary::by_thresholds))
    section.remarks.push_back({"By thresholds: " + std::string(kByThresholds) + "."});
}

/// Passages of held-out text and their continuations by the run's model.
std::string text_section(const TextSamples& samples) {
  std::string out;
  if (!samples.refused.empty())
    out = "<p class=\"note\">None was generated: " + escape(samples.refused) + ".</p>";
  for (const auto& sample : samples.samples)
    out += "<div class=\"card\"><pre class=\"text\">" + escape(sample.prompt) + "<mark>" +
           escape(sample.text) + "</mark></pre></div>";
  if (out.empty()) return "";
  return "<h2>Text</h2>" + out + "<p class=\"note\">Passages of the " + escape(samples.split) +
         " split, evenly spaced and not chosen; marked is what the final model writes after them, "
         "drawn at temperature 0.8 by the run’s seed.</p>";
}

/// A whole page: `sections`, measurements, then training, experts and settings.
std::string page_of(const StudyResults& results, Variants variants, const std::string& header,
                    std::vector<Section> sections, const std::optional<TextSamples>& samples) {
  for (Section& section : study_sections(results, variants)) sections.push_back(std::move(section));
  const auto training = training_charts(variants);
  const auto charted = [&](const char* name, const char* title) {
    Section out{.title = title};
    std::ranges::copy_if(training, std::back_inserter(out.charts),
                         [&](const Chart& chart) { return chart.section == name; });
    return out;
  };
  std::string body = header;
  std::vector<Chart> charts;
  const auto add = [&](const Section& section, const std::string& under = "") {
    body += section_html(section, under);
    charts.insert(charts.end(), section.charts.begin(), section.charts.end());
  };
  for (const Section& section : sections) add(section);
  // The buttons choose the x axis of the losses.
  const Section loss = charted("loss", "Loss");
  add(loss, loss.charts.empty() ? "" : "<div class=\"axes\" id=\"costs\"></div>");
  add(charted("training", "Training"));
  if (one_run(variants)) {
    Section processes = rank_section(*variants[0].rows[0]);
    processes.charts = charted("ranks", "").charts;
    add(processes);
  }
  Section routing = charted("routing", "Routing over the steps");
  routing.tables = {stage_table(variants), regulariser_table(variants),
                    layer_sparsity_table(variants)};
  add(routing);
  body += kNoScript;
  if (samples) body += text_section(*samples);
  for (const Section& section : load_sections(variants)) add(section);
  add(active_section(variants));
  add({.title = "Validation loss by domain",
       .tables = {domain_table(variants, results.comparison)}});
  if (!one_run(variants)) body += speed_section(variants);
  add({.title = "Settings", .tables = {differing_settings(variants), shared_settings(variants)}});
  body += reproduce_section(results);
  nlohmann::json drawn = drawn_by_script(charts);
  // If the variants' FLOPs differ, the losses are first drawn over the FLOPs.
  drawn["cost"] = compute_difference(variants).empty() ? "steps" : "flops";
  return page(results.title, body, drawn);
}

}  // namespace

std::string reproduce_section(const StudyResults& results) {
  return section_html({.title = "How to reproduce", .tables = {runs_table(results)}},
                      results.command.empty() ? ""
                                              : "<div class=\"card\"><div class=\"scroll\"><pre>" +
                                                    escape(results.command) + "</pre></div></div>");
}

std::string report_page(const StudyResults& results) {
  PENSTOCK_ASSERT(!results.empty());
  const auto variants = summarize(results.rows);
  std::vector<Section> sections;
  if (!variants.empty() || !results.diverged.empty()) {
    sections.push_back(explained_results(variants, results));
    add_warnings(sections.back(), variants);
  }
  for (Table table : results.tables) {
    const std::string title = std::exchange(table.title, "");
    sections.push_back({.title = title, .tables = {std::move(table)}});
  }
  return page_of(results, variants, header(results), std::move(sections), {});
}

std::string run_page(const RunRow& run, const std::string& command,
                     const std::optional<TextSamples>& samples) {
  const StudyResults results{.title = run.label, .command = command, .rows = {run}};
  const auto variants = summarize(results.rows);
  Section figures{.title = "Results", .tables = {figures_table(variants[0])}};
  add_warnings(figures, variants);
  return page_of(results, variants, run_header(run), {std::move(figures)}, samples);
}

}  // namespace penstock::report
