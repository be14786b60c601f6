// The results as text: one line per variant, columns that nothing fills left out.
#include <fmt/format.h>

#include <algorithm>

#include "penstock/models/model_config.h"
#include "penstock/study/columns.h"
#include "penstock/study/report.h"

namespace penstock::study {
namespace {

// Terminal columns of UTF-8 text whose characters are all one column wide.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

std::string aligned(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths(lines[0].size());
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
  std::string out;
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string padding(widths[i] - width(line[i]), ' ');
      out += i == 0 ? line[i] + padding : "  " + padding + line[i];
    }
    out += "\n";
  }
  return out;
}

}  // namespace

std::string results_table(const StudyResults& results) {
  const auto variants = summarize(results.rows);
  if (variants.empty()) return "no finished runs\n";
  const auto columns = filled_columns(variants);
  std::vector<std::vector<std::string>> lines(1, {"variant", "seeds"});
  for (const auto& column : columns) lines[0].push_back(column.title);
  for (const auto& variant : variants) {
    auto& line = lines.emplace_back();
    line = {variant.label, fmt::to_string(variant.rows.size())};
    for (const auto& column : columns) line.push_back(column.text(variant));
  }
  std::string out = aligned(lines);
  const auto pairs = compare_pairs(variants);
  if (!pairs.empty()) out += "\ndifference in validation loss, seed by seed:\n";
  for (const auto& pair : pairs) out += "  " + pair_text(pair) + "\n";
  if (!std::ranges::all_of(variants, &VariantSummary::causal))
    out += fmt::format("\nnot causal: {}\n", kNotCausal);
  return out;
}

}  // namespace penstock::study
