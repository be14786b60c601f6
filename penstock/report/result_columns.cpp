#include "penstock/report/result_columns.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::report {

using namespace study;

namespace {

Spread parameters(const VariantSummary& variant, double RunRow::*member) {
  Spread out = spread_of(variant, [&](const RunRow& row) {
    return row.*member > 0 ? std::optional(row.*member) : std::nullopt;
  });
  out.sd.reset();  // a property of the model, equal for all seeds
  return out;
}

/// Counts the runs that steer their sparsity and settled: "" if all did, "never" if none did, or
/// else "(n of m runs)".
std::string unsettled(const VariantSummary& variant) {
  const auto settled = static_cast<std::size_t>(variant.settled_step.count);
  if (settled == variant.steered) return "";
  return settled == 0 ? "never" : fmt::format("({} of {} runs)", settled, variant.steered);
}

ResultColumn settled_column() {
  return {"settled at step",
          "first step of stage III; never: the sparsity did not come to stay at its target",
          [](const VariantSummary& v) { return v.settled_step; },
          fixed(0),
          4,
          false,
          unsettled};
}

ResultColumn of_machine(ResultColumn column) {
  column.of_machine = true;
  return column;
}

/// All columns. By their ranks, a narrow terminal drops the losses, the active experts and the
/// speed last.
std::vector<ResultColumn> all_columns() {
  using V = const VariantSummary&;
  const auto prefixed = [](const char* unit) {
    return [unit](double x) { return with_prefix(x, unit); };
  };
  return {
      {"validation loss", "nats per token on the validation split (train.final_eval_tokens of it)",
       [](V v) { return v.validation_loss; }, fixed(4), 0, true},
      {"bits/byte", "of the validation text", [](V v) { return v.bits_per_byte; }, fixed(4), 6,
       true},
      {"test loss", "nats per token on the test split", [](V v) { return v.test_loss; }, fixed(4),
       1, true},
      {"active experts", "mean per token and MoE layer, on the validation split",
       [](V v) { return v.active_experts; }, fixed(2), 2},
      {"parameters", "in all", [](V v) { return parameters(v, &RunRow::total_parameters); },
       prefixed(""), 8},
      {"active parameters", "parameters that one token uses at the nominal number of experts",
       [](V v) { return parameters(v, &RunRow::active_parameters); }, prefixed(""), 10},
      {"steps", "optimizer steps", [](V v) { return v.steps; }, fixed(0), 9},
      {"FLOPs", "useful training FLOPs, summed over the steps", [](V v) { return v.total_flops; },
       prefixed(""), 5},
      settled_column(),
      of_machine({"tokens/s", "median over the steps", [](V v) { return v.tokens_per_second; },
                  fixed(0), 3}),
      of_machine({"share of peak", "useful FLOPs per second over the measured peak of the machine",
                  [](V v) { return v.share_of_peak; },
                  [](double x) { return fixed(1)(100 * x) + " %"; }, 11}),
      of_machine(
          {"memory", "peak of the process", [](V v) { return v.peak_bytes; }, prefixed("B"), 7}),
  };
}

}  // namespace

Cell ResultColumn::cell(const VariantSummary& variant) const {
  const std::string more = remark ? remark(variant) : "";
  const Spread spread = value(variant);
  if (spread.count == 0 && !more.empty()) return more;
  Cell out = spread_cell(spread, format);
  if (!more.empty()) out.more += (out.more.empty() ? "" : " ") + more;
  return out;
}

bool ResultColumn::filled(const VariantSummary& variant) const {
  return value(variant).count > 0 || (remark && !remark(variant).empty());
}

Cell settled_cell(const VariantSummary& variant) { return settled_column().cell(variant); }

std::vector<ResultColumn> filled_columns(study::Variants variants) {
  std::vector<ResultColumn> columns = all_columns();
  std::erase_if(columns, [&](const ResultColumn& column) {
    return std::ranges::none_of(variants,
                                [&](const VariantSummary& v) { return column.filled(v); });
  });
  return columns;
}

}  // namespace penstock::report
