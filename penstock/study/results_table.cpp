// The results as text: one line per variant, columns that nothing fills left out.
#include <fmt/format.h>

#include <algorithm>

#include "penstock/models/model_config.h"
#include "penstock/study/by_k_text.h"
#include "penstock/study/columns.h"
#include "penstock/study/compute.h"
#include "penstock/study/report.h"
#include "penstock/study/reported.h"
#include "penstock/study/text_table.h"

namespace penstock::study {

std::string results_table(const StudyResults& results) {
  const auto variants = summarize(results.rows);
  std::string diverged;
  for (const auto& run : results.diverged)
    diverged += fmt::format("diverged: {}, seed {}: {}\n", run.label, run.seed, run.reason);
  if (variants.empty() && results.tables.empty()) return diverged + "no finished runs\n";
  if (variants.empty()) return reported_text(results, variants).substr(1);
  const auto columns = filled_columns(variants);
  std::vector<std::vector<std::string>> lines(1, {"variant", "seeds"});
  for (const auto& column : columns) lines[0].push_back(column.title);
  for (const auto& variant : variants) {
    auto& line = lines.emplace_back();
    line = {variant.label, fmt::to_string(variant.rows.size())};
    for (const auto& column : columns) line.push_back(column.text(variant));
  }
  std::string out = aligned(lines);
  if (!diverged.empty()) out += "\n" + diverged;
  if (const std::string difference = compute_difference(variants); !difference.empty())
    out +=
        "\n" + difference +
        ": the losses are no order of the variants; report.html shows them over FLOPs, tokens and "
        "seconds\n";
  if (const std::string uncounted = uncounted_compute(variants, results.comparison);
      !uncounted.empty())
    out += "\n" + uncounted + "\n";
  const auto pairs = shown_pairs(variants, results.comparison);
  if (!pairs.empty()) out += "\ndifference in validation loss, seed by seed:\n";
  for (const auto& pair : pairs) out += "  " + pair_text(pair) + "\n";
  const auto with_folded = by_k_rows(results.rows);
  out += by_k_text(summarize(with_folded), results.comparison);
  out += reported_text(results, variants);
  if (!std::ranges::all_of(variants, &VariantSummary::causal))
    out += fmt::format("\nnot causal: {}\n", kNotCausal);
  return out;
}

}  // namespace penstock::study
