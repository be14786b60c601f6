// The page, put together from its sections.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "penstock/base/error.h"
#include "penstock/study/by_k_summary.h"
#include "penstock/study/charts.h"
#include "penstock/study/columns.h"
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

std::string fact(const std::string& name, const std::string& value) {
  return value.empty() ? "" : fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, escape(value));
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
  out +=
      "<dl class=\"facts\">" + fact("Data", joined(corpora)) + fact("Seeds", seed_list) +
      fact("Scale", results.scale) +
      fact("Runs", planned == 0      ? ""
                   : done == planned ? fmt::format("{} finished", done)
                                     : fmt::format("{} of {} finished", done, planned)) +
      fact("Training time", seconds > 0 ? fmt::format("{:.0f} min", std::ceil(seconds / 60)) : "") +
      fact("Machine", joined(machines)) +
      fact("Measured peak", peak > 0 ? with_prefix(peak, "FLOP/s") : "");
  dates.erase("");
  if (!dates.empty())
    out +=
        fact("Date", *dates.begin() == *dates.rbegin() ? *dates.begin()
                                                       : *dates.begin() + " to " + *dates.rbegin());
  return out + "</dl>";
}

std::string loss_charts(const nlohmann::json& data, bool several_seeds) {
  const std::string band = several_seeds ? " Lines are means over seeds, bands their range." : "";
  std::string out;
  if (has_chart(data, "loss"))
    out +=
        chart_card("loss", "Training loss",
                   "Cross-entropy without auxiliary losses, smoothed over a fiftieth of the run. "
                   "The axis leaves out the first steps." +
                       band);
  if (has_chart(data, "validation"))
    out += chart_card("validation", "Validation loss",
                      "Measured during training on a fixed part of the validation split." + band);
  return out.empty() ? "" : "<h2>Loss</h2><div class=\"grid\">" + out + "</div>";
}

std::string stage_table(Variants variants) {
  std::string rows;
  const auto whole = [](double x) { return fmt::format("{:.0f}", x); };
  for (std::size_t i = 0; i < variants.size(); ++i) {
    std::vector<double> begins;
    for (const RunRow* row : variants[i].rows)
      if (row->stages.sparsifying) begins.push_back(static_cast<double>(*row->stages.sparsifying));
    if (begins.empty()) continue;
    rows += fmt::format("<tr><td>{}{}</td><td>{}</td><td>{}</td></tr>", dot(i),
                        escape(variants[i].label), spread_text(spread(begins), whole),
                        spread_text(variants[i].settled_step, whole));
  }
  if (rows.empty()) return "";
  return "<div class=\"card\"><h3>ReMoE’s stages</h3><div "
         "class=\"scroll\"><table><tr><th>variant</th>"
         "<th>stage II begins</th><th>stage III begins</th></tr>" +
         rows + "</table></div><p class=\"note\">" + escape(kStageRule) + "</p></div>";
}

std::string routing_charts(const nlohmann::json& data, Variants variants) {
  const std::string stages = stage_table(variants);
  std::string out;
  if (has_chart(data, "sparsity"))
    out +=
        chart_card("sparsity", "Sparsity", "Mean over layers of the share of gates that are off.");
  if (has_chart(data, "lambda"))
    out +=
        chart_card("lambda", "Regulariser’s weight λ",
                   "Raised by the factor α after every step that is less sparse than the target, "
                   "and lowered by it otherwise.");
  if (has_chart(data, "active"))
    out += chart_card("active", "Active experts", "Mean per token and MoE layer, while training.");
  if (out.empty()) return "";
  return "<h2>Sparsity over the steps</h2><div class=\"grid\">" + out + stages + "</div>";
}

}  // namespace

std::string report_page(const StudyResults& results) {
  PENSTOCK_ASSERT(!results.rows.empty() || !results.tables.empty());
  const auto variants = summarize(results.rows);
  const auto with_folded = by_k_rows(results.rows);
  const auto by_k = summarize(with_folded);
  nlohmann::json data = chart_data(variants);
  for (auto& chart :
       by_k_charts(k_series(by_k, results.comparison), measure_title(results.comparison)))
    data["charts"].push_back(std::move(chart));
  const bool several_seeds =
      std::ranges::any_of(variants, [](const VariantSummary& v) { return v.rows.size() > 1; });
  std::string body = header(results);
  for (const auto& run : results.diverged)
    body += fmt::format("<p class=\"note\">Diverged and not in any table: {}, seed {}: {}</p>",
                        escape(run.label), run.seed, escape(run.reason));
  if (!variants.empty()) body += results_section(variants, results.comparison);
  body += by_k_section(by_k, results.comparison) + reported_sections(results, variants);
  body += loss_charts(data, several_seeds) + routing_charts(data, variants);
  body +=
      "<noscript><p class=\"note\">The line charts need JavaScript; everything else is "
      "here.</p></noscript>";
  body += load_section(variants) + active_section(variants) + domain_section(variants);
  body += speed_section(variants) + settings_section(variants) + reproduce_section(results);
  return page(results.title, body, data);
}

}  // namespace penstock::study
