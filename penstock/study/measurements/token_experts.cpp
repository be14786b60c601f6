// Counts to which experts a run's checkpoint sends each token of the vocabulary (report =
// ["token-experts"]): active experts by a token's frequency, as in ReMoE's Figure 7, and the tokens
// that nearly always go to an expert, as in its Table 12. penstock/analysis does the counting.
#include "penstock/analysis/token_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "penstock/analysis/refusals.h"
#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/base/progress.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/study/report_measurement.h"
#include "penstock/study/runs/opened_checkpoint.h"
#include "penstock/study/runs/results.h"
#include "penstock/train/evaluation_settings.h"

namespace penstock::study::token_experts {
namespace {

using nlohmann::json;

constexpr const char* kReading = "as evaluated";  // how the split is read
constexpr std::size_t kShownTokens = 8;           // tokens in each list

/// Tokens that occur from `least` to below 2·`least` times.
struct FrequencyBin {
  double least = 0, tokens = 0, active = 0;  // active: mean over the bin's tokens
  template <class V>
  void visit(V& v) {
    v("least", least, Presence::required);
    v("tokens", tokens, Presence::required);
    v("active", active, Presence::required);
  }
};

/// A token, the number of its positions in the text, and a value: its mean active experts, or the
/// share of its positions that an expert gets.
struct ShownToken {
  std::string text;
  double count = 0, value = 0;
  template <class V>
  void visit(V& v) {
    v("text", text, Presence::required);
    v("count", count, Presence::required);
    v("value", value, Presence::required);
  }
};

struct Report {
  RunCheckpoint checkpoint = RunCheckpoint::final;
  std::string split, refused, reading;  // reading: kReading, or another in older files
  std::int64_t tokens = 0, layer = 0, asked_layer = -1;
  double correlation = 0;  // of log frequency and active experts, over tokens that occur often
  std::vector<FrequencyBin> bins;
  std::vector<ShownToken> fewest, most;          // by active experts
  std::vector<std::vector<ShownToken>> experts;  // [E], by share
  template <class V>
  void visit(V& v) {
    v("checkpoint", checkpoint);
    v("split", split);
    v("refused", refused, Presence::if_filled);
    v("reading", reading, Presence::if_filled);
    v("tokens", tokens);
    v("layer", layer);
    v("asked_layer", asked_layer);
    v("correlation", correlation);
    v("by_frequency", bins, Presence::if_filled);
    v("fewest", fewest, Presence::if_filled);
    v("most", most, Presence::if_filled);
    v("experts", experts, Presence::if_filled);
  }
};

std::optional<Report> report_of(const RunRow& row) {
  return report_under<Report>("token_experts", row);
}

std::vector<FrequencyBin> bins_of(const analysis::TokenExperts& counted) {
  std::vector<FrequencyBin> out;
  for (std::size_t id = 0; id < counted.count.size(); ++id) {
    if (counted.count[id] == 0) continue;
    const auto bin = static_cast<std::size_t>(std::log2(counted.count[id]));
    if (out.size() <= bin) out.resize(bin + 1);
    out[bin].tokens += 1;
    out[bin].active += counted.active[id] / counted.count[id];
  }
  for (std::size_t b = 0; b < out.size(); ++b) {
    out[b].least = std::exp2(static_cast<double>(b));
    if (out[b].tokens > 0) out[b].active /= out[b].tokens;
  }
  std::erase_if(out, [](const FrequencyBin& bin) { return bin.tokens == 0; });
  return out;
}

/// Pearson's correlation of ln count and active experts; 0 if either is constant.
double correlation_of(const analysis::TokenExperts& counted, const std::vector<std::size_t>& ids) {
  const auto n = static_cast<double>(ids.size());
  double x = 0, y = 0, xx = 0, yy = 0, xy = 0;
  for (const std::size_t id : ids) {
    const double a = std::log(counted.count[id]), b = counted.active[id] / counted.count[id];
    x += a, y += b, xx += a * a, yy += b * b, xy += a * b;
  }
  const double spread = (xx - x * x / n) * (yy - y * y / n);
  return spread > 1e-18 ? (xy - x * y / n) / std::sqrt(spread) : 0;
}

std::vector<ShownToken> shown(const std::vector<analysis::ListedToken>& tokens) {
  std::vector<ShownToken> out;
  for (const analysis::ListedToken& one : tokens)
    out.push_back({.text = one.text, .count = one.count, .value = one.value});
  return out;
}

void fill(Report& out, const analysis::TokenExperts& counted, const Tokenizer& tokenizer) {
  out.tokens = counted.tokens;
  out.bins = bins_of(counted);
  const std::vector<std::size_t> often = analysis::frequent_ids(counted);
  out.correlation = correlation_of(counted, often);
  const auto active = [&](std::size_t id) { return counted.active[id] / counted.count[id]; };
  const auto by_active = [&](bool descending) {
    return shown(
        analysis::listed_tokens(counted, tokenizer, often, kShownTokens, active, descending));
  };
  out.fewest = by_active(false);
  out.most = by_active(true);
  for (std::size_t e = 0; e < static_cast<std::size_t>(counted.experts); ++e)
    out.experts.push_back(shown(analysis::surest_tokens(
        counted, tokenizer, static_cast<std::size_t>(out.layer), e, kShownTokens)));
}

/// The layer whose experts have lists of tokens: `asked`, or the middle one if `asked` is -1.
std::int64_t listed_layer(std::int64_t asked, std::int64_t layers) {
  PENSTOCK_CHECK(asked < layers, "token_layer = ", asked, ": the model has ", layers,
                 " layers with experts; they count from 0");
  return asked >= 0 ? asked : (layers - 1) / 2;
}

Report measured_report(const FinishedRun& run, std::int64_t layer, std::FILE* progress) {
  const auto opened = open_checkpoint(run.recipe, run.directory, run.checkpoint);
  Report out{.checkpoint = run.checkpoint,
             .split = opened.split_text(),
             .reading = kReading,
             .asked_layer = layer};
  const ModelConfig config = read_model_config(opened.info.directory.string());
  out.refused =
      config.moe_layers() == 0 ? "a dense model has no experts" : analysis::refusals(config).load;
  if (!out.refused.empty()) return out;
  out.layer = listed_layer(layer, config.moe_layers());
  ProgressLine line(progress);
  const auto model = load_model(opened.info.directory.string());
  EvaluateOptions reading = final_evaluation(opened.recipe, opened.split);
  reading.progress = [&](double done, const LossTotals&) {
    if (line.due()) line.show(fmt::format("experts by token {:3.0f}%", 100 * done));
  };
  fill(out, analysis::count_token_experts(*model, opened.corpus, reading).tokens,
       opened.corpus.tokenizer());
  line.finish();
  return out;
}

std::string list_text(const std::vector<ShownToken>& tokens, bool percent) {
  return joined(tokens, "  ", [&](const ShownToken& one) {
    return one.text + (percent ? fmt::format(" ({:.1f}%)", 100 * one.value)
                               : fmt::format(" ({:.2f})", one.value));
  });
}

/// Mean active experts of the tokens of each frequency, for each variant's first run.
Table frequency_table(const std::vector<std::pair<std::string, Report>>& reports) {
  Table out{.title = "Active experts by a token’s frequency",
            .columns = {"occurs, times", "tokens"}};
  std::vector<double> leasts;
  for (const auto& [label, report] : reports) {
    out.columns.emplace_back(label);
    for (const FrequencyBin& bin : report.bins)
      if (std::ranges::find(leasts, bin.least) == leasts.end()) leasts.push_back(bin.least);
  }
  std::ranges::sort(leasts);
  for (const double least : leasts) {
    TableRow& row = out.rows.emplace_back();
    row.cells = {fmt::format("{:g} to {:g}", least, 2 * least - 1), "–"};
    for (const auto& [label, report] : reports) {
      const auto bin = std::ranges::find(report.bins, least, &FrequencyBin::least);
      if (bin != report.bins.end()) row.cells[1] = fmt::format("{:g}", bin->tokens);
      row.cells.emplace_back(bin == report.bins.end() ? "–" : fmt::format("{:.3f}", bin->active));
    }
  }
  return out;
}

Table extremes_table(const std::vector<std::pair<std::string, Report>>& reports) {
  Table out{.title = "Tokens with the most and the fewest active experts",
            .columns = {"variant", "", "tokens (mean active experts)"}};
  for (const auto& [label, report] : reports) {
    out.rows.push_back({{label, "most", list_text(report.most, false)}});
    out.rows.push_back({{label, "fewest", list_text(report.fewest, false)}});
  }
  return out;
}

/// @param layer  the number in the model of report.layer
Table experts_table(const std::string& label, const Report& report, std::int64_t layer) {
  Table out{
      .title = fmt::format("{}: tokens that an expert of layer {} gets most surely", label, layer),
      .columns = {"expert", "tokens (share of their places)"}};
  for (std::size_t e = 0; e < report.experts.size(); ++e)
    out.rows.push_back({{fmt::to_string(e), list_text(report.experts[e], true)}});
  return out;
}

class TokenExpertsReport : public ReportMeasurement<Report> {
 public:
  void read_keys(FieldReader& keys, KeysOf part) override {
    if (part == KeysOf::command_line) return;
    std::optional<std::int64_t> layer;
    keys("token_layer", layer,
         {.help = "MoE layer, from 0, whose experts report = [\"token-experts\"] shows; -1: the "
                  "middle one",
          .min = -1});
    if (layer) layer_ = *layer;
  }
  std::vector<std::string_view> report_words() const override { return {"token-experts"}; }

  std::vector<Work> missing(const FinishedRun& run, const RunRow& row) const override {
    const auto have = report_of(row);
    if (!in_report_ || (have && have->checkpoint == run.checkpoint && have->reading == kReading &&
                        have->asked_layer == layer_))
      return {};
    return {{.what = fmt::format("counting experts by token with the {} checkpoint",
                                 word(run.checkpoint))}};
  }
  std::optional<json> measure(const FinishedRun& run, const Work&,
                              const TrainControl& control) const override {
    return write_json(measured_report(run, layer_, control.progress));
  }

  std::vector<Section> sections(std::span<const RunRow> rows, const Comparison&) const override {
    std::vector<std::pair<std::string, Report>> reports;  // of each variant's first run
    std::vector<std::int64_t> layers;                     // the reports' layers in their models
    Section out{.title = "Experts by token"};
    for (const VariantSummary& variant : summarize(rows))
      if (const auto report = report_of(*variant.rows[0])) {
        if (report->refused.empty()) {
          reports.emplace_back(variant.label, *report);
          layers.push_back(variant.rows[0]->model_layer(static_cast<std::size_t>(report->layer)));
        } else {
          out.remarks.push_back({variant.label + ": not counted: " + report->refused});
        }
      }
    if (reports.empty()) return {};
    out.tables = {frequency_table(reports), extremes_table(reports)};
    for (std::size_t i = 0; i < reports.size(); ++i)
      out.tables.push_back(experts_table(reports[i].first, reports[i].second, layers[i]));
    out.note = fmt::format(
        "Of each variant’s first seed, {} split, {} places; tokens by the input that is read. "
        "Lists and correlations are of tokens that occur {:g} times or more. Correlation of ln "
        "frequency and active experts:",
        reports[0].second.split, reports[0].second.tokens, analysis::kOccursOften);
    for (const auto& [label, report] : reports)
      out.note += fmt::format(" {} {:+.2f};", label, report.correlation);
    out.note.back() = '.';
    return {out};
  }

 private:
  std::int64_t layer_ = -1;
};

const RegisterMeasurement<TokenExpertsReport> registered("token_experts");

}  // namespace
}  // namespace penstock::study::token_experts
