// Column definitions and number formats.
#include "penstock/study/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "penstock/study/compute.h"
#include "penstock/study/html.h"

namespace penstock::study {
namespace {

std::function<std::string(double)> fixed(int digits) {
  return [digits](double value) { return fmt::format("{:.{}f}", value, digits); };
}

Spread parameters(const VariantSummary& variant, double RunRow::*member) {
  std::vector<double> values;
  for (const RunRow* row : variant.rows)
    if (row->*member > 0) values.push_back(row->*member);
  Spread out = spread(values);
  out.sd.reset();  // a property of the model, equal for all seeds
  return out;
}

/// "never" where no run that steers its sparsity settled, else which share of them did.
std::string unsettled(const VariantSummary& variant) {
  const auto settled = static_cast<std::size_t>(variant.settled_step.count);
  if (settled == variant.steered) return "";
  return settled == 0 ? "never" : fmt::format("({} of {} runs)", settled, variant.steered);
}

Column settled_column() {
  return {"settled at step",
          "first step of stage III; never: the sparsity did not come to stay at its target",
          [](const VariantSummary& v) { return v.settled_step; },
          fixed(0),
          false,
          unsettled};
}

std::vector<Column> all_columns() {
  using V = const VariantSummary&;
  return {
      {"validation loss", "nats per token on the validation split (train.final_eval_tokens of it)",
       [](V v) { return v.validation_loss; }, fixed(4), true},
      {"bits/byte", "of the validation text", [](V v) { return v.bits_per_byte; }, fixed(4), true},
      {"test loss", "nats per token on the test split", [](V v) { return v.test_loss; }, fixed(4),
       true},
      {"active experts", "mean per token and MoE layer, on the validation split",
       [](V v) { return v.active_experts; }, fixed(2)},
      {"parameters", "in all", [](V v) { return parameters(v, &RunRow::total_parameters); },
       [](double x) { return with_prefix(x, ""); }},
      {"active parameters", "parameters that one token uses at the nominal number of experts",
       [](V v) { return parameters(v, &RunRow::active_parameters); },
       [](double x) { return with_prefix(x, ""); }},
      {"steps", "optimizer steps", [](V v) { return v.steps; }, fixed(0)},
      {"FLOPs", "useful training FLOPs, summed over the steps", [](V v) { return v.total_flops; },
       [](double x) { return with_prefix(x, ""); }},
      settled_column(),
      {"tokens/s", "median over the steps", [](V v) { return v.tokens_per_second; }, fixed(0)},
      {"share of peak", "useful FLOPs per second over the measured peak of the machine",
       [](V v) { return v.share_of_peak; },
       [](double x) { return fmt::format("{:.1f} %", 100 * x); }},
      {"memory", "peak of the process", [](V v) { return v.peak_bytes; },
       [](double x) { return with_prefix(x, "B"); }},
  };
}

}  // namespace

std::string spread_text(const Spread& spread, const std::function<std::string(double)>& format) {
  if (spread.count == 0) return "–";
  if (!spread.sd || *spread.sd == 0) return format(spread.mean);
  return format(spread.mean) + " ± " + format(*spread.sd);
}

std::string spread_html(const Spread& spread, const std::function<std::string(double)>& format) {
  if (spread.count == 0) return "–";
  std::string out = escape(format(spread.mean));
  if (spread.sd && *spread.sd > 0)
    out += " <span class=\"sd\">± " + escape(format(*spread.sd)) + "</span>";
  return out;
}

std::string Column::text(const VariantSummary& variant) const {
  const std::string more = remark ? remark(variant) : "";
  const Spread spread = value(variant);
  if (spread.count == 0 && !more.empty()) return more;
  return spread_text(spread, format) + (more.empty() ? "" : " " + more);
}

std::string Column::html(const VariantSummary& variant) const {
  const std::string more = remark ? remark(variant) : "";
  const Spread spread = value(variant);
  if (spread.count == 0 && !more.empty()) return escape(more);
  return spread_html(spread, format) +
         (more.empty() ? "" : " <span class=\"sd\">" + escape(more) + "</span>");
}

bool Column::filled(const VariantSummary& variant) const {
  return value(variant).count > 0 || (remark && !remark(variant).empty());
}

std::string settled_text(const VariantSummary& variant) { return settled_column().text(variant); }

std::vector<Column> filled_columns(std::span<const VariantSummary> variants) {
  std::vector<Column> columns = all_columns();
  std::erase_if(columns, [&](const Column& column) {
    return std::ranges::none_of(variants,
                                [&](const VariantSummary& v) { return column.filled(v); });
  });
  return columns;
}

std::string pair_text(const PairedComparison& pair) {
  const auto& d = pair.difference;
  std::string out = fmt::format("{} − {}: {:+.4f}", pair.first, pair.second, d.difference.mean);
  if (d.difference.sd)
    out += fmt::format(
        " ± {:.4f} (sd over {} seeds; 95 % interval of the mean {:+.4f} to {:+.4f}); {} lower in "
        "{} "
        "of {}",
        *d.difference.sd, d.difference.count, d.difference.mean - *d.half_width,
        d.difference.mean + *d.half_width, pair.first, d.lower, d.difference.count);
  else
    out += " (one seed: no spread)";
  if (pair.compute > 0 && std::max(pair.compute, 1 / pair.compute) > kEqualCompute)
    out += fmt::format("; at {} the compute", ratio_text(pair.compute));
  return out;
}

std::string with_prefix(double value, const std::string& unit) {
  static constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t index = 0;
  while (std::abs(value) >= 999.5 && index + 1 < std::size(kPrefixes)) {
    value /= 1000;
    ++index;
  }
  const int digits = index == 0 ? 0 : std::abs(value) < 9.995 ? 2 : std::abs(value) < 99.95 ? 1 : 0;
  const std::string suffix = kPrefixes[index] + unit;
  return fmt::format("{:.{}f}{}{}", value, digits, suffix.empty() ? "" : " ", suffix);
}

}  // namespace penstock::study
