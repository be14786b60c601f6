// Tables of the report: results, domains, settings.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "penstock/models/model_config.h"
#include "penstock/study/by_k_summary.h"
#include "penstock/study/columns.h"
#include "penstock/study/compute.h"
#include "penstock/study/html.h"
#include "penstock/study/page_sections.h"

namespace penstock::study {
namespace {

// The variant with the lowest mean, where there is something to choose from; one that is not causal
// has no loss to compare.
const VariantSummary* lowest(Variants variants,
                             const std::function<Spread(const VariantSummary&)>& value) {
  if (variants.size() < 2) return nullptr;
  const VariantSummary* best = nullptr;
  for (const auto& variant : variants)
    if (variant.causal && value(variant).count > 0 &&
        (!best || value(variant).mean < value(*best).mean))
      best = &variant;
  return best;
}

Spread domain_loss(const VariantSummary& variant, const std::string& domain) {
  std::vector<double> losses;
  for (const RunRow* row : variant.rows) {
    if (!row->validation) continue;
    const auto it = row->validation->by_domain.find(domain);
    if (it != row->validation->by_domain.end()) losses.push_back(it->second.loss);
  }
  return spread(losses);
}

std::string fixed4(double value) { return fmt::format("{:.4f}", value); }

std::string pairs_table(std::span<const PairedComparison> pairs) {
  std::string out =
      "<div class=\"scroll\"><table class=\"pairs\"><tr><th>difference in validation loss, seed by "
      "seed</th>"
      "<th>mean</th><th>sd</th><th>95 % interval of the mean</th><th>first is lower</th>"
      "<th>compute, first ÷ second</th></tr>";
  for (const auto& pair : pairs) {
    const auto& d = pair.difference;
    const bool several = d.half_width.has_value();
    out += fmt::format(
        "<tr><td>{} − {}</td><td>{:+.4f}</td><td>{}</td><td>{}</td><td>{} of "
        "{}</td><td>{}</td></tr>",
        escape(pair.first), escape(pair.second), d.difference.mean,
        several ? fixed4(*d.difference.sd) : "one seed",
        several ? fmt::format("{:+.4f} to {:+.4f}", d.difference.mean - *d.half_width,
                              d.difference.mean + *d.half_width)
                : "–",
        d.lower, d.difference.count, pair.compute > 0 ? ratio_text(pair.compute) : "–");
  }
  return out + "</table></div>";
}

std::string setting(const VariantSummary& variant, const std::string& key) {
  const auto& settings = variant.rows[0]->settings;
  const auto it = settings.find(key);
  return it == settings.end() ? "–" : it->second;
}

std::string settings_table(Variants variants, const std::vector<std::string>& keys,
                           bool by_variant) {
  std::string out = "<div class=\"scroll\"><table class=\"settings\"><tr><th>key</th>";
  if (by_variant)
    for (std::size_t i = 0; i < variants.size(); ++i)
      out += "<th>" + dot(i) + escape(variants[i].label) + "</th>";
  else
    out += "<th>value</th>";
  out += "</tr>";
  for (const auto& key : keys) {
    out += "<tr><td>" + escape(key) + "</td>";
    for (std::size_t i = 0; i < (by_variant ? variants.size() : 1); ++i)
      out += "<td>" + escape(setting(variants[i], key)) + "</td>";
    out += "</tr>";
  }
  return out + "</table></div>";
}

}  // namespace

std::vector<std::string> measured_domains(Variants variants) {
  std::set<std::string> names;
  for (const auto& variant : variants)
    for (const RunRow* row : variant.rows)
      if (row->validation)
        for (const auto& [name, loss] : row->validation->by_domain) names.insert(name);
  if (names.size() < 2) names.clear();
  return {names.begin(), names.end()};
}

std::string results_section(Variants variants, const Comparison& comparison) {
  const std::string unequal = compute_difference(variants);
  const bool comparable = may_be_tinted(variants, comparison);
  const auto columns = filled_columns(variants);
  std::string out =
      "<h2>Results</h2><div class=\"card\"><div class=\"scroll\"><table "
      "class=\"results\"><tr><th>variant</th><th title=\"runs\">seeds</th>";
  for (const auto& column : columns)
    out +=
        fmt::format("<th title=\"{}\">{}</th>", escape(column.explanation), escape(column.title));
  out += "</tr>";
  for (std::size_t i = 0; i < variants.size(); ++i) {
    out += fmt::format("<tr><td>{}{}</td><td>{}</td>", dot(i), escape(variants[i].label),
                       variants[i].rows.size());
    for (const auto& column : columns) {
      const bool best =
          comparable && column.lower_is_better && lowest(variants, column.value) == &variants[i];
      out += fmt::format("<td{}>{}</td>", best ? " class=\"best\"" : "", column.html(variants[i]));
    }
    out += "</tr>";
  }
  out += "</table></div>";
  const auto pairs = shown_pairs(variants, comparison);
  if (!pairs.empty()) out += pairs_table(pairs);
  out += "</div>";
  if (!unequal.empty())
    out += "<p class=\"warning\">" + escape(unequal) +
           ": no cell is tinted, for these losses are no order of the variants. The charts below "
           "show the loss over FLOPs.</p>";
  if (const std::string uncounted = uncounted_compute(variants, comparison); !uncounted.empty())
    out += "<p class=\"note\">" + escape(uncounted) + "</p>";
  out += "<p class=\"note\">Mean ± standard deviation over seeds. Losses are nats per token.";
  if (comparable)
    out +=
        " The tinted cell is the lowest mean of its column, which by itself says nothing about "
        "significance";
  if (comparable)
    out += pairs.empty() ? "." : ": see the differences seed by seed below the table.";
  if (!std::ranges::all_of(variants, &VariantSummary::causal))
    out += " Not causal: " + escape(kNotCausal) + ".";
  out += "</p>";
  return out;
}

std::string figures_section(const VariantSummary& run) {
  std::vector<std::vector<std::string>> lines{{"", "value", "what it is"}};
  for (const auto& column : filled_columns(std::span(&run, 1)))
    lines.push_back({column.title, column.text(run), column.explanation});
  return "<h2>Results</h2><div class=\"card figures\">" + cell_table(lines) + "</div>" +
         (run.causal ? "" : "<p class=\"note\">Not causal: " + escape(kNotCausal) + ".</p>");
}

std::string warnings_section(Variants variants) {
  std::string out;
  for (const auto& variant : variants)
    for (const RunRow* row : variant.rows)
      for (const auto& warning : row->warnings)
        out +=
            "<p class=\"warning\">Warning" +
            (one_run(variants) ? ""
                               : escape(fmt::format(" of {}, seed {}", variant.label, row->seed))) +
            ": " + escape(warning) + "</p>";
  return out;
}

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

std::string domain_section(Variants variants, const Comparison& comparison) {
  const auto domains = measured_domains(variants);
  if (domains.empty()) return "";
  const bool comparable = may_be_tinted(variants, comparison);
  std::string out =
      "<h2>Validation loss by domain</h2><div class=\"card\"><div "
      "class=\"scroll\"><table><tr><th>domain</th>";
  for (std::size_t i = 0; i < variants.size(); ++i)
    out += "<th>" + dot(i) + escape(variants[i].label) + "</th>";
  out += "</tr>";
  for (const auto& domain : domains) {
    const auto value = [&](const VariantSummary& v) { return domain_loss(v, domain); };
    out += "<tr><td>" + escape(domain) + "</td>";
    for (const auto& variant : variants)
      out += fmt::format("<td{}>{}</td>",
                         comparable && lowest(variants, value) == &variant ? " class=\"best\"" : "",
                         spread_html(value(variant), fixed4));
    out += "</tr>";
  }
  return out + "</table></div></div>";
}

std::string settings_section(Variants variants) {
  std::set<std::string> keys;
  for (const auto& variant : variants)
    for (const auto& [key, value] : variant.rows[0]->settings) keys.insert(key);
  std::vector<std::string> different, shared;
  for (const auto& key : keys) {
    const bool by_nature = key == "name" || key == "description" || key == "train.seed";
    if (by_nature && variants.size() > 1) continue;
    const bool equal = std::ranges::all_of(variants, [&](const VariantSummary& variant) {
      return setting(variant, key) == setting(variants[0], key);
    });
    (equal ? shared : different).push_back(key);
  }
  if (keys.empty()) return "";
  std::string out = "<h2>Settings</h2><div class=\"card\">";
  if (!different.empty())
    out += "<h3>Where the variants differ</h3>" + settings_table(variants, different, true);
  if (!shared.empty())
    out += fmt::format("<details{}><summary>{}</summary>{}</details>",
                       variants.size() > 1 ? "" : " open",
                       variants.size() > 1 ? "What they share" : "All settings",
                       settings_table(variants, shared, false));
  return out + "</div>";
}

std::string reproduce_section(const StudyResults& results) {
  std::string out = "<h2>How to reproduce</h2><div class=\"card\">";
  if (!results.command.empty())
    out += "<div class=\"scroll\"><pre>" + escape(results.command) + "</pre></div>";
  if (results.rows.size() < 2) return out + "</div>";
  out +=
      "<details><summary>Runs and their configuration hashes</summary><div "
      "class=\"scroll\"><table><tr>"
      "<th>variant</th><th>seed</th><th>steps</th><th>hours</th><th>date</th><th>hash</th></tr>";
  for (const auto& row : results.rows)
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2f}</td><td>{}</td><td><code>{}</code></td></"
        "tr>",
        escape(row.label), row.seed, row.steps, row.seconds / 3600, escape(row.finished_at),
        escape(row.config_hash));
  return out + "</table></div></details></div>";
}

}  // namespace penstock::study
