// The page, put together from its sections.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/study/by_k_summary.h"
#include "penstock/study/charts.h"
#include "penstock/study/columns.h"
#include "penstock/study/compute.h"
#include "penstock/study/config_hash.h"
#include "penstock/study/html.h"
#include "penstock/study/page.h"
#include "penstock/study/page_sections.h"
#include "penstock/study/report.h"
#include "penstock/study/reported.h"
#include "penstock/study/stages.h"

namespace penstock::study {
namespace {

std::string joined(const std::set<std::string>& words) {
  std::string out;
  for (const auto& word : words)
    if (!word.empty()) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string measuring_facts(double seconds, const std::string& machine, double peak) {
  return fact("Training time", seconds > 0 ? duration_text(seconds) : "") +
         fact("Machine", machine) +
         fact("Measured peak", peak > 0 ? with_prefix(peak, "FLOP/s") : "");
}

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
  std::string seed_list;
  for (const auto seed : seeds) seed_list += (seed_list.empty() ? "" : ", ") + fmt::to_string(seed);
  const auto done = std::ranges::count_if(results.rows, &RunRow::finished);
  const auto planned = std::max<std::ptrdiff_t>(results.planned_runs, done);
  std::string out = "<h1>" + escape(results.title) + "</h1>";
  if (!results.claim.empty()) out += "<p class=\"claim\">" + escape(results.claim) + "</p>";
  out += "<dl class=\"facts\">" + fact("Data", joined(corpora)) + fact("Seeds", seed_list) +
         fact("Scale", results.scale) +
         fact("Runs", planned == 0      ? ""
                      : done == planned ? fmt::format("{} finished", done)
                                        : fmt::format("{} of {} finished", done, planned)) +
         measuring_facts(seconds, joined(machines), peak);
  dates.erase("");
  if (!dates.empty())
    out +=
        fact("Date", *dates.begin() == *dates.rbegin() ? *dates.begin()
                                                       : *dates.begin() + " to " + *dates.rbegin());
  return out + "</dl>";
}

std::string run_header(const RunRow& run) {
  const std::string claim = plain_setting(run.settings, "description");
  std::string steps = fmt::to_string(run.steps);
  if (!run.finished)
    steps += " of " + plain_setting(run.settings, "train.steps") + ", not finished";
  return "<h1>" + escape(run.label) + "</h1>" +
         (claim.empty() ? "" : "<p class=\"claim\">" + escape(claim) + "</p>") +
         "<dl class=\"facts\">" + fact("Data", plain_setting(run.settings, "data.corpus")) +
         fact("Seed", fmt::to_string(run.seed)) + fact("Steps", steps) +
         measuring_facts(run.seconds, run.machine, run.peak_flops) + fact("Date", run.finished_at) +
         "</dl>";
}

/// The charts over the steps, the buttons that choose what the losses are drawn over, and what is
/// drawn by hand.
std::string chart_sections(std::span<const Chart> charts, const std::string& stages) {
  std::string routing = chart_section(charts, "routing", "Routing over the steps");
  if (!routing.empty()) routing += stages;
  const std::string loss =
      chart_section(charts, "loss", "Loss", "<div class=\"axes\" id=\"costs\"></div>");
  return loss + chart_section(charts, "training", "Training") + routing +
         "<noscript><p class=\"note\">The line charts need JavaScript; everything else is "
         "here.</p></noscript>";
}

/// What the page's script reads. Losses stand over the FLOPs at first where those differ.
nlohmann::json drawn(std::span<const Chart> charts, Variants by_k, const Comparison& comparison) {
  nlohmann::json out = {
      {"charts", by_k_charts(k_series(by_k, comparison), measure_title(comparison))},
      {"cost", compute_difference(by_k).empty() ? "steps" : "flops"}};
  for (const Chart& chart : charts) out["charts"].push_back(chart.drawn);
  return out;
}

std::string stage_table(Variants variants) {
  std::vector<std::vector<std::string>> lines{{"", "stage II begins", "stage III begins"}};
  const auto whole = [](double x) { return fmt::format("{:.0f}", x); };
  for (const VariantSummary& variant : variants) {
    std::vector<double> begins;
    for (const RunRow* row : variant.rows)
      if (row->stages.sparsifying) begins.push_back(static_cast<double>(*row->stages.sparsifying));
    if (!begins.empty())
      lines.push_back({variant.label, spread_text(spread(begins), whole), settled_text(variant)});
  }
  if (lines.size() < 2) return "";
  return "<div class=\"card\"><h3>ReMoE’s stages</h3>" + cell_table(lines) + "<p class=\"note\">" +
         escape(kStageRule) + "</p></div>";
}

}  // namespace

std::string report_page(const StudyResults& results) {
  PENSTOCK_ASSERT(!results.rows.empty() || !results.tables.empty());
  const auto variants = summarize(results.rows);
  const auto with_folded = by_k_rows(results.rows);
  const auto by_k = summarize(with_folded);
  const auto charts = training_charts(variants);
  std::string body = header(results);
  for (const auto& run : results.diverged)
    body += fmt::format("<p class=\"note\">Diverged and not in any table: {}, seed {}: {}</p>",
                        escape(run.label), run.seed, escape(run.reason));
  if (!variants.empty()) body += results_section(variants, results.comparison);
  body += warnings_section(variants) + by_k_section(by_k, results.comparison) +
          reported_sections(results, variants) + chart_sections(charts, stage_table(variants));
  body += load_section(variants) + active_section(variants) +
          domain_section(variants, results.comparison);
  body += speed_section(variants) + settings_section(variants) + reproduce_section(results);
  return page(results.title, body, drawn(charts, by_k, results.comparison));
}

std::string run_page(const RunRow& run, const std::string& command,
                     const std::optional<TextSamples>& samples) {
  const std::span rows(&run, 1);
  const auto variants = summarize(rows);
  const auto with_folded = by_k_rows(rows);
  const auto by_k = summarize(with_folded);
  const auto charts = training_charts(variants);
  std::string body = run_header(run) + warnings_section(variants) + figures_section(variants[0]);
  body += by_k_section(by_k, {}) + chart_sections(charts, stage_table(variants));
  if (samples) body += text_section(*samples);
  body += load_section(variants) + active_section(variants) + domain_section(variants, {});
  body += settings_section(variants) + reproduce_section({.command = command});
  return page(run.label, body, drawn(charts, by_k, {}));
}

}  // namespace penstock::study
