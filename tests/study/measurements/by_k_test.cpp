// Studies that measure by experts per token: when each point is measured, the summary, the rules
// for stating an order, and the report.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/report/report.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/study/tables/by_k_summary.h"
#include "tests/base/error_of.h"
#include "tests/study/study_runner_fixture.h"

namespace penstock::study {
namespace {

using testing::FakeTrainer;
using testing::read_text;
using testing::write_text;

struct StudyByK : testing::StudyRunner {
  void SetUp() override { ask("eval_k = [1, 4, 16]\nreference = \"topk\"\n"); }
  StudyResults run(FakeTrainer& trainer) { return StudyRunner::run(trainer).results; }
  static const RunRow& row(const StudyResults& results, const std::string& variant,
                           std::int64_t seed) {
    for (const RunRow& row : results.rows)
      if (row.variant == variant && row.seed == seed) return row;
    throw Error("no such row");
  }
};

TEST_F(StudyByK, MeasuresEachRunOnceAfterItsTraining) {
  FakeTrainer first, second;
  const StudyResults results = run(first);
  ASSERT_EQ(first.measured.size(), 12u);
  EXPECT_EQ(first.measured[0], "dense 1 final 0");  // one point serves every k
  EXPECT_EQ(first.measured[1], "topk 1 final 1 4 16");
  const auto by_k = measured_k(row(results, "remoe", 2));
  ASSERT_TRUE(by_k.has_value());
  EXPECT_EQ(by_k->split, "test");
  EXPECT_EQ(by_k->at(4)->bits_per_byte, testing::fake_point("remoe", 2, 4).bits_per_byte);
  EXPECT_EQ(by_k->at(2), nullptr);
  EXPECT_EQ(measured_k(row(results, "dense", 1))->at(2)->bits_per_byte, 1.31);
  run(second);
  EXPECT_TRUE(second.trained.empty());
  EXPECT_TRUE(second.measured.empty());
}

TEST_F(StudyByK, UsesRunsThatWereTrainedBeforeItWasAsked) {
  FakeTrainer before, after, more, best;
  ask("");
  const StudyResults plain = run(before);
  EXPECT_TRUE(before.measured.empty());
  EXPECT_FALSE(measured_k(row(plain, "topk", 1)).has_value());
  ask("eval_k = [1, 4]\n");
  options.report_only = true;
  const StudyResults results = run(after);
  EXPECT_TRUE(after.trained.empty());
  EXPECT_EQ(after.measured.size(), 12u);
  EXPECT_EQ(row(results, "topk", 1).config_hash, row(plain, "topk", 1).config_hash);
  // Only the new points are measured.
  ask("eval_k = [4, 16]\n");
  const StudyResults all = run(more);
  EXPECT_EQ(more.measured.size(), 9u);  // the dense runs already have their one point
  EXPECT_EQ(more.measured[0], "topk 1 final 16");
  std::vector<std::int64_t> ks;
  const auto measured = measured_k(row(all, "topk", 1));
  for (const KFigures& point : measured->points) ks.push_back(point.k);
  EXPECT_EQ(ks, (std::vector<std::int64_t>{1, 4, 16}));
  // Another checkpoint needs another measurement.
  ask("eval_k = [4]\neval_checkpoint = \"best\"\n");
  const StudyResults other = run(best);
  EXPECT_EQ(best.measured.size(), 12u);
  EXPECT_EQ(measured_k(row(other, "topk", 1))->points.size(), 1u);
}

TEST_F(StudyByK, KeptRowsBringTheirMeasurements) {
  FakeTrainer first, second, third;
  options.kept_rows = folder.path("rows.json");
  run(first);
  std::filesystem::remove_all(folder.path("out"));
  const StudyResults results = run(second);
  EXPECT_TRUE(second.measured.empty());
  EXPECT_EQ(measured_k(row(results, "topk", 3))->points.size(), 3u);
  // Without the runs' folders nothing new is measured. This is no failure.
  ask("eval_k = [2]\n");
  run(third);
  EXPECT_TRUE(third.trained.empty());
  EXPECT_TRUE(third.measured.empty());
}

TEST_F(StudyByK, ADamagedFileIsNamed) {
  FakeTrainer trainer;
  run(trainer);
  std::string path;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("out/runs")))
    path = entry.path().string() + "/by_k.json";
  write_text(path, "{\"by_k\": [{\"k\": 1}], \"by_k_of\": {}}");
  penstock::testing::expect_error([&] { run(trainer); }, {path});
}

TEST_F(StudyByK, SummarisesOverSeedsAndPairs) {
  FakeTrainer trainer;
  const StudyResults results = run(trainer);
  const auto variants = summarize(results.rows);
  EXPECT_EQ(measured_ks(variants), (std::vector<std::int64_t>{1, 4, 16}));
  // By hand: remoe at k = 1 is 1 + 0.1·4 − 0.2 + seed/100 = 1.21, 1.22, 1.23.
  const Spread remoe = quality_at(variants[3], 1, Quality::bits_per_byte);
  EXPECT_EQ(remoe.count, 3);
  EXPECT_NEAR(remoe.mean, 1.22, 1e-12);
  EXPECT_NEAR(*remoe.sd, 0.01, 1e-12);
  EXPECT_NEAR(quality_at(variants[3], 1, Quality::perplexity).mean,
              (std::exp2(1.21) + std::exp2(1.22) + std::exp2(1.23)) / 3, 1e-12);
  EXPECT_NEAR(flops_at(variants[3], 16), 18e6, 1e-3);
  EXPECT_NEAR(quality_at(variants[0], 16, Quality::bits_per_byte).mean, 1.32,
              1e-12);  // dense, any k
  // remoe − topk at each k: −0.2 − seed²/1000 = −0.201, −0.204, −0.209. The mean is −0.614/3, the
  // sum of squared deviations 32.667e-6, the sd √(16.333e-6) = 0.0040415, and t(2) = 4.303.
  int seen = 0;
  for (const VariantPair& pair : pairs_with_reference(variants, results.comparison)) {
    EXPECT_NE(pair.names.first, "topk");
    EXPECT_EQ(pair.names.second, "topk");
    if (pair.names.first != "remoe") continue;
    for (const std::int64_t k : measured_ks(variants)) {
      ++seen;
      const auto one = difference_at(pair, k, Quality::bits_per_byte);
      ASSERT_TRUE(one);
      EXPECT_EQ(one->difference.count, 3);
      EXPECT_NEAR(one->difference.mean, -0.614 / 3, 1e-12);
      EXPECT_NEAR(*one->difference.sd, 0.0040415, 1e-6);
      EXPECT_NEAR(*one->half_width, 4.303 * 0.0040415 / std::sqrt(3.0), 1e-5);
    }
  }
  EXPECT_EQ(seen, 3);
}

TEST_F(StudyByK, ComparesChosenPairsAtEachK) {
  FakeTrainer trainer;
  ask("eval_k = [1, 4, 16]\nreference = \"topk\"\npairs = [[\"remoe\", \"dense\"]]\n");
  const std::string text = report::results_text(run(trainer));
  const std::size_t at = text.find("differences of pairs in bits per byte, seed by seed");
  ASSERT_NE(at, std::string::npos) << text;
  // At each seed remoe has 1.2 at k = 1 and 16, 0.8 at k = 4, and dense 1.3, all + seed/100.
  penstock::testing::expect_says(text.substr(at), {"ReMoE − Dense", "-0.1000 -0.1000 to -0.1000",
                                                   "-0.5000 -0.5000 to -0.5000"});
  const auto pairs =
      nlohmann::json::parse(read_text(folder.path("out/results.json")))["by_k_pairs"];
  ASSERT_EQ(pairs.size(), 3u);
  const std::map<std::int64_t, double> means{{1, -0.1}, {4, -0.5}, {16, -0.1}};
  for (const auto& pair : pairs) {
    EXPECT_EQ(pair["first"], "remoe");
    EXPECT_EQ(pair["second"], "dense");
    EXPECT_EQ(pair["difference"]["n"], 3);
    EXPECT_NEAR(pair["difference"]["mean"].get<double>(), means.at(pair["k"].get<std::int64_t>()),
                1e-12);
  }
}

TEST_F(StudyByK, ComparesChosenGroupsAtEachK) {
  FakeTrainer trainer;
  ask("eval_k = [1, 4, 16]\nreference = \"topk\"\n"
      "pairs = [{label = \"sparse - dense\", first = [\"topk\", \"remoe\"], second = "
      "[\"dense\"]}]\n");
  penstock::testing::expect_says(report::results_text(run(trainer)), {"sparse - dense"});
  const auto pairs =
      nlohmann::json::parse(read_text(folder.path("out/results.json")))["by_k_pairs"];
  ASSERT_EQ(pairs.size(), 3u);
  // Without seed/100, which cancels: dense has 1.3 at every k; remoe 1.2, 0.8 and 1.2; topk
  // seed²/1000 and 1.4, 1 and 1.4. The mean of seed²/1000 is 0.014/3.
  const std::map<std::int64_t, double> means{
      {1, 0.007 / 3}, {4, -0.4 + 0.007 / 3}, {16, 0.007 / 3}};
  for (const auto& pair : pairs) {
    EXPECT_EQ(pair["label"].get<std::string>(), "sparse - dense");
    EXPECT_EQ(pair["first"], nlohmann::json({"topk", "remoe"}));
    EXPECT_EQ(pair["second"].get<std::string>(), "dense");
    EXPECT_EQ(pair["difference"]["n"], 3);
    EXPECT_NEAR(pair["difference"]["mean"].get<double>(), means.at(pair["k"].get<std::int64_t>()),
                1e-12);
  }
}

TEST_F(StudyByK, TellsAnOrderOnlyWhereAllBeatTheBaseline) {
  FakeTrainer trainer;
  const auto lines = [&](const std::string& baseline) {
    ask("eval_k = [1, 4, 16]\n" + baseline);
    const StudyResults results = run(trainer);
    const std::string text = report::results_text(results), page = report::report_page(results);
    for (const auto& line : verdict(summarize(results.rows), results.comparison))
      penstock::testing::expect_says(text, {line});
    EXPECT_EQ(page.find("undertrained: ") != std::string::npos,
              text.find("undertrained: ") != std::string::npos);
    return text;
  };
  EXPECT_EQ(lines("").find("order of the means"), std::string::npos);
  // Best means: dense 1.32; at k = 4 topk 1 + 0.02 + 0.014/3 = 1.0247 and remoe 0.82.
  const std::string told = lines("baseline = {name = \"5-gram\", bits_per_byte = 1.3201}\n");
  penstock::testing::expect_says(told, {"order of the means at k = 4: ReMoE 0.8200, Top-1 1.0247"});
  // All variants beat 1.3201 at their best k; the highest is dense with 1.32. At k = 1 and 16 top-1
  // has 1.4247.
  penstock::testing::expect_says(told,
                                 {"undertrained at k = 1: 5-gram is not beaten by Top-1 (1.4247)"});
  EXPECT_EQ(told.find("order of the means at k = 1:"), std::string::npos) << told;
  const std::string high = lines("baseline = {name = \"5-gram\", bits_per_byte = 1.45}\n");
  // Dense has no k. It is compared only where a variant activates all of its experts.
  penstock::testing::expect_says(
      high, {"order of the means at k = 1: ReMoE 1.2200, Top-1 1.4247,",
             "order of the means at k = 16: ReMoE 1.2200, Dense 1.3200, Top-1 1.4247,"});
  EXPECT_EQ(high.find("undertrained"), std::string::npos);
  const std::string under = lines("baseline = {name = \"5-gram\", bits_per_byte = 1.3199}\n");
  penstock::testing::expect_says(
      under, {"undertrained: Dense does not beat 5-gram (1.3200 and 1.3199 bits"});
  EXPECT_EQ(under.find("undertrained: Top-1"), std::string::npos);
  EXPECT_EQ(under.find("order of the means"), std::string::npos);
  const auto object = nlohmann::json::parse(read_text(folder.path("out/results.json")));
  EXPECT_EQ(object["baseline_bits_per_byte"], 1.3199);
  EXPECT_EQ(object["undertrained"], nlohmann::json({"dense"}));
  const std::string spared =
      lines("baseline = {name = \"5-gram\", bits_per_byte = 1.3199, except = [\"dense\"]}\n");
  penstock::testing::expect_says(spared,
                                 {"every variant but Dense at its best k beats 5-gram (1.3199",
                                  "order of the means at k = 4: ReMoE 0.8200, Top-1 1.0247"});
  EXPECT_EQ(results_from_json(nlohmann::json::parse(read_text(folder.path("out/results.json"))),
                              "results.json")
                .comparison.baseline.except,
            std::vector<std::string>{"dense"});
  ask("baseline = {bits_per_byte = 1.3, except = [\"nobody\"]}\n");
  EXPECT_THROW(run(trainer), Error);
}

TEST_F(StudyByK, CountsTheBaselineOnTheCorpus) {
  FakeTrainer trainer;  // its n-gram models have 10 / order bits per byte
  ask("eval_k = [4]\nbaseline = {name = \"six-gram\", ngram = 6}\n");
  EXPECT_EQ(run(trainer).comparison.baseline.bits_per_byte, 10.0 / 6);
  const std::string text = report::results_text(run(trainer));
  penstock::testing::expect_says(text, {"every variant beats six-gram (1.6667 bits per byte)"});
  // A figure that an earlier call has kept is counted again.
  const std::string path = folder.path("out/results.json");
  auto kept = nlohmann::json::parse(read_text(path));
  kept["baseline_bits_per_byte"] = 9.0;
  write_text(path, kept.dump());
  EXPECT_EQ(read_results(path).comparison.baseline.bits_per_byte, 9.0);
  EXPECT_EQ(run(trainer).comparison.baseline.bits_per_byte, 10.0 / 6);
  EXPECT_EQ(read_results(path).comparison.baseline.bits_per_byte, 10.0 / 6);
  ask("eval_k = [4]\nbaseline = {ngram = 6, bits_per_byte = 2.0}\n");
  EXPECT_THROW(run(trainer), Error);
}

TEST_F(StudyByK, WithoutMeasurementsTheTestSplitDecides) {
  FakeTrainer trainer;
  ask("baseline = {bits_per_byte = 0.1}\n");
  penstock::testing::expect_says(report::results_text(run(trainer)), {"undertrained: Dense"});
  ask("baseline = {bits_per_byte = 9.0}\n");
  penstock::testing::expect_says(report::results_text(run(trainer)), {"every variant beats"});
}

TEST_F(StudyByK, ShowsPublishedNumbersBeneath) {
  FakeTrainer trainer;
  // Published for remoe.
  write_text(file, read_text(file) + "published = {k1 = 1.48, k16 = 1.1}\n");
  const StudyResults results = run(trainer);
  const std::string text = report::results_text(results);
  penstock::testing::expect_says(text, {"paper"});
  EXPECT_LT(text.find("1.2200 ± 0.0100"), text.find("1.48"));
  penstock::testing::expect_says(report::report_page(results),
                                 {"<td>1.48</td><td>–</td><td>1.1</td>"});
  // results.json alone is enough to make the report again.
  const StudyResults read = read_results(folder.path("out/results.json"));
  EXPECT_EQ(report::report_page(read), report::report_page(results));
  EXPECT_EQ(report::results_text(read), text);
}

TEST_F(StudyByK, DrawsQualityByKAndByCost) {
  FakeTrainer trainer;
  const StudyResults results = run(trainer);
  const auto variants = summarize(results.rows);
  const auto charts =
      by_k_charts(k_series(variants, results.comparison), Quality::bits_per_byte, true);
  ASSERT_EQ(charts.size(), 2u);
  EXPECT_EQ(charts[0].drawn["id"], "by-k");
  EXPECT_EQ(charts[0].drawn["x_ticks"], nlohmann::json({1, 4, 16}));
  ASSERT_EQ(charts[0].drawn["series"].size(), 4u);
  const auto &dense = charts[0].drawn["series"][0], &remoe = charts[0].drawn["series"][3];
  EXPECT_EQ(dense["steps"], nlohmann::json({1.0, 4.0, 16.0}));  // a horizontal line
  EXPECT_EQ(dense["values"][0], dense["values"][2]);
  EXPECT_TRUE(dense["trained"].empty());
  EXPECT_EQ(remoe["trained"], nlohmann::json({4}));
  EXPECT_EQ(charts[1].drawn["series"][3]["trained"], nlohmann::json({6.0}));  // the cost of k = 4
  EXPECT_NEAR(remoe["low"][1].get<double>(), 0.81, 1e-12);
  EXPECT_NEAR(remoe["high"][1].get<double>(), 0.83, 1e-12);
  EXPECT_EQ(charts[1].drawn["id"], "by-flops");
  EXPECT_EQ(charts[1].drawn["series"][0]["steps"], nlohmann::json({18.0}));  // a single point
  EXPECT_EQ(charts[1].drawn["series"][3]["steps"], nlohmann::json({3.0, 6.0, 18.0}));
  const std::string page = report::report_page(results);
  penstock::testing::expect_says(page, {"<canvas id=\"by-k\"", "\"by-flops\""});
}

}  // namespace
}  // namespace penstock::study
