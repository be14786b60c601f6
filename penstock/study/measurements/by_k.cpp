// Evaluates a run's checkpoint at several numbers of experts per token (eval_k). With a variant's
// fold = true, it is also evaluated with each router folded into one matrix. by_k_summary.h
// compares the figures over seeds.
#include "penstock/eval/by_k.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/models/fold_routers.h"
#include "penstock/study/measurement.h"
#include "penstock/study/runs/opened_checkpoint.h"
#include "penstock/study/runs/run_folder.h"
#include "penstock/study/tables/by_k_summary.h"
#include "penstock/train/evaluation_settings.h"

namespace penstock::study::by_k {
namespace {

using nlohmann::json;

constexpr const char* kFile = "by_k.json";
constexpr const char* kFoldedFile = "by_k_folded.json";

/// The values of `asked` that the model takes; {0} for a model without k, which has one point.
std::vector<std::int64_t> taken_ks(const ModelConfig& model, std::span<const std::int64_t> asked) {
  if (!why_no_k(model).empty()) return {0};
  std::vector<std::int64_t> out;
  std::ranges::copy_if(asked, std::back_inserter(out),
                       [&](std::int64_t k) { return takes_k(model, k); });
  return out;
}

/// Evaluates the checkpoint at each k with the settings of the recipe's last evaluation. k = 0 is
/// the model's own number.
MeasuredK measured_run(const FinishedRun& run, std::span<const std::int64_t> values, bool folded,
                       std::FILE* progress) {
  const auto opened = open_checkpoint(run.recipe, run.directory, run.checkpoint);
  auto model = opened.model();
  if (folded) model = fold_routers(*model);
  MeasuredK out{
      .checkpoint = run.checkpoint, .step = opened.info.step, .split = opened.split_text()};
  if (why_no_k(model->config()).empty()) out.trained_k = model->config().active_experts();
  ProgressLine line(progress);
  for (const std::int64_t k : values) {
    const auto show = [&](double done, const LossTotals& totals) {
      if (line.due())
        line.show(fmt::format("{}{:3.0f}%  bits per byte {:.4f}",
                              k > 0 ? fmt::format("k={}  ", k) : "", 100 * done,
                              totals.bits_per_byte()));
    };
    EvaluateOptions options = final_evaluation(opened.recipe, opened.split);
    options.progress = show;
    out.points.push_back(evaluate_at_k(*model, opened.corpus, options, k).figures);
  }
  line.finish();
  return out;
}

class ByK : public Measurement {
 public:
  void read_keys(FieldReader& keys, KeysOf part) override {
    if (part == KeysOf::command_line) return;
    std::optional<std::vector<std::int64_t>> asked;
    keys("eval_k", asked,
         {.help = "numbers of experts per token at which finished runs are measured", .min = 1});
    if (asked) eval_k_ = std::move(*asked);
  }
  void read_variant(FieldReader& keys, const std::string& variant) override {
    bool fold = false;
    keys("fold", fold, {.help = "also measure by k with each router folded into one matrix"});
    if (fold) folded_.insert(variant);
  }
  void settle(std::span<const std::string>, const std::string& path) override {
    PENSTOCK_CHECK(std::set(eval_k_.begin(), eval_k_.end()).size() == eval_k_.size(), path,
                   ": eval_k has the same number twice");
  }
  std::string showable() const override { return "numbers of experts (k1, k2 and so on, or all)"; }
  bool shows(const std::string& name) const override { return k_of_name(name) >= 0; }

  std::vector<Work> missing(const FinishedRun& run, const RunRow& row) const override {
    std::vector<Work> out;
    if (eval_k_.empty()) return out;
    const auto add = [&](bool folded) {
      const auto ks =
          missing_k(measured_k(row, folded), taken_ks(run.model, eval_k_), run.checkpoint);
      if (!ks.empty())
        out.push_back({.what = fmt::format("measuring the {} checkpoint by k{}",
                                           word(run.checkpoint), folded ? ", folded" : ""),
                       .asked = {{"k", ks}, {"folded", folded}}});
    };
    add(false);
    if (folded_.contains(run.variant) && run.model.traits().foldable) add(true);
    return out;
  }
  std::optional<json> measure(const FinishedRun& run, const Work& work,
                              const TrainControl& control) const override {
    return to_json(measured_run(run, work.asked["k"].get<std::vector<std::int64_t>>(),
                                work.asked["folded"].get<bool>(), control.progress));
  }
  void keep(const FinishedRun& run, const Work& work, const json& result,
            RunRow& row) const override {
    const bool folded = work.asked["folded"].get<bool>();
    const json whole =
        to_json(merged(measured_k(row, folded), *measured_k_from_json(result, "by k")));
    write_kept_object(whole, run.directory, folded ? kFoldedFile : kFile);
    row.measured.update(folded ? json{{"folded", whole}} : whole);
  }

  json read_row(const json& row, const std::string& where) const override {
    json out = json::object();
    if (const auto plain = measured_k_from_json(row, where)) out.update(to_json(*plain));
    if (const auto it = row.find("folded"); it != row.end() && !it->is_null()) {
      PENSTOCK_CHECK(it->is_object(), where, ": 'folded' is not an object");
      if (const auto folded = measured_k_from_json(*it, where + ": folded"))
        out["folded"] = to_json(*folded);
    }
    return out;
  }
  json read_folder(const std::string& run_directory) const override {
    json out = json::object();
    if (const auto plain = read_kept_object(run_directory, kFile))
      out.update(read_row(*plain, run_directory + "/" + kFile));
    if (const auto folded = read_kept_object(run_directory, kFoldedFile))
      out.update(read_row({{"folded", *folded}}, run_directory + "/" + kFoldedFile));
    return out;
  }

  std::vector<Section> sections(std::span<const RunRow> rows,
                                const Comparison& comparison) const override {
    return by_k_sections(rows, comparison);
  }
  json summary(std::span<const RunRow> rows, const Comparison& comparison) const override {
    return by_k_json(rows, comparison);
  }

 private:
  std::vector<std::int64_t> eval_k_;
  std::set<std::string> folded_;  // variants with fold = true
};

const RegisterMeasurement<ByK> registered("by_k");

}  // namespace
}  // namespace penstock::study::by_k
