// The differences of two variants or groups, against numbers worked by hand, and their place in
// results.json, text and page.
#include "penstock/study/runs/pair_comparison.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "penstock/report/report.h"
#include "penstock/study/runs/results_file.h"
#include "tests/base/error_of.h"

namespace penstock::study {
namespace {

/// A run with the validation loss. A positive `test` is its test loss.
RunRow finished_run(const std::string& variant, std::int64_t seed, double validation,
                    double test = 0) {
  RunRow out{.variant = variant, .label = "L" + variant, .seed = seed, .finished = true};
  out.validation = Evaluation{.loss = validation};
  if (test > 0) out.test = Evaluation{.loss = test};
  return out;
}

/// a − b over the seeds 1, 2 and 3: validation 0.1, 0.3, 0.5; test 0.5, 0.7 at the seeds 1 and 2.
/// Seed 4 is a's alone, and seed 5 is b's.
struct ComparedPairs : ::testing::Test {
  StudyResults results{.title = "t",
                       .comparison = {.reference = "a", .pairs = {ChosenPair{"a", "b"}}},
                       .rows = {finished_run("a", 1, 1.0, 2.0), finished_run("a", 2, 1.3, 2.1),
                                finished_run("a", 3, 1.2), finished_run("a", 4, 9),
                                finished_run("b", 5, 9), finished_run("b", 3, 0.7),
                                finished_run("b", 2, 1.0, 1.4), finished_run("b", 1, 0.9, 1.5)}};

  /// What is compared, after `flops` of every run of a and of b.
  std::string no_order(double a, double b) {
    for (RunRow& row : results.rows) row.total_flops = row.variant == "a" ? a : b;
    return compare_chosen(summarize(results.rows), results.comparison)[0].no_order;
  }
};

TEST_F(ComparedPairs, TakeTheCommonSeeds) {
  const auto variants = summarize(results.rows);
  const auto pairs = compare_chosen(variants, results.comparison);
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].first, "La");
  EXPECT_EQ(pairs[0].second, "Lb");
  EXPECT_EQ(pairs[0].seeds, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(pairs[0].all_seeds, 5u);
  // The sd of 0.1, 0.3 and 0.5 is 0.2, and t(0.975, 2) is 4.303: 4.303 · 0.2 / √3.
  ASSERT_TRUE(pairs[0].validation_loss && pairs[0].test_loss);
  EXPECT_EQ(pairs[0].validation_loss->difference.count, 3);
  EXPECT_EQ(pairs[0].validation_loss->lower, 0);
  EXPECT_NEAR(pairs[0].validation_loss->difference.mean, 0.3, 1e-12);
  EXPECT_NEAR(*pairs[0].validation_loss->half_width, 0.496868, 1e-6);
  // The sd of 0.5 and 0.7 is 0.2 / √2, and t(0.975, 1) is 12.706: 12.706 · 0.1.
  EXPECT_EQ(pairs[0].test_loss->difference.count, 2);
  EXPECT_NEAR(pairs[0].test_loss->difference.mean, 0.6, 1e-12);
  EXPECT_NEAR(*pairs[0].test_loss->half_width, 1.2706, 1e-9);
}

TEST_F(ComparedPairs, TurnTheSignWithTheOrder) {
  results.comparison.pairs = {ChosenPair{"b", "a"}};
  const auto pairs = compare_chosen(summarize(results.rows), results.comparison);
  EXPECT_NEAR(pairs[0].validation_loss->difference.mean, -0.3, 1e-12);
  EXPECT_EQ(pairs[0].validation_loss->lower, 3);
}

TEST_F(ComparedPairs, StandInTextAndPage) {
  results.rows.push_back(finished_run("late", 7, 1));
  results.comparison.pairs.push_back({"late", "a"});
  results.comparison.pairs.push_back({"none", "a"});
  const std::string text = report::results_text(results), page = report::report_page(results);
  const std::size_t at = text.find("differences of pairs");
  ASSERT_NE(at, std::string::npos) << text;
  penstock::testing::expect_says(
      text.substr(at),
      {"La − Lb", "3 of 5", "+0.3000 -0.1969 to +0.7969", "+0.6000 -0.6706 to +1.8706", "0 of 3",
       "without a common seed: Llate − La; none − La"});
  penstock::testing::expect_says(page, {"differences of pairs", "3 of 5", "-0.6706 to +1.8706",
                                        "without a common seed: Llate − La; none − La"});
  results.comparison.pairs.clear();
  EXPECT_EQ(report::results_text(results).find("of pairs"), std::string::npos);
  EXPECT_EQ(report::report_page(results).find("differences of pairs"), std::string::npos);
}

/// A report's first table of differences, before that of the chosen pairs.
std::string differences_in(const std::string& text) {
  const std::size_t at = text.find("differences, seed by seed");
  EXPECT_NE(at, std::string::npos) << text;
  return text.substr(at, text.find("differences of pairs") - at);
}

TEST_F(ComparedPairs, OfEveryReportHaveSeedsAndTestLosses) {
  const std::string table = differences_in(report::results_text(results));
  penstock::testing::expect_says(
      table, {"seeds", "test loss", "La − Lb", "3 of 5", "+0.3000 -0.1969 to +0.7969",
              "+0.6000 -0.6706 to +1.8706", "0 of 3"});
  for (RunRow& row : results.rows) row.test.reset();
  EXPECT_EQ(report::results_text(results).find("test loss"), std::string::npos);
}

TEST_F(ComparedPairs, OfEveryReportAreInNoOrderWhereComputeDiffersOrARunIsNotCausal) {
  results.comparison.pairs.clear();
  const auto expect_none = [&](const std::string& why) {
    const std::string text = report::results_text(results), table = differences_in(text);
    penstock::testing::expect_says(table, {"– " + why});
    penstock::testing::expect_says(report::report_page(results), {why});
    EXPECT_EQ(table.find("0 of 3"), std::string::npos) << text;
    EXPECT_EQ(to_json(results)["paired"][0]["no_order"].get<std::string>(), why);
  };
  for (RunRow& row : results.rows) row.total_flops = row.variant == "a" ? 1e12 : 1.021e12;
  expect_none("compute differs");
  for (RunRow& row : results.rows) row.total_flops = 1e12;
  penstock::testing::expect_says(differences_in(report::results_text(results)), {"0 of 3"});
  EXPECT_TRUE(to_json(results)["paired"][0]["no_order"].is_null());
  results.rows[0].causal = false;
  expect_none("not causal");
}

TEST_F(ComparedPairs, OfAllVariantsStandInResults) {
  const nlohmann::json pair = to_json(results)["paired"][0];
  EXPECT_EQ(pair["first"].get<std::string>(), "La");
  EXPECT_EQ(pair["second"].get<std::string>(), "Lb");
  EXPECT_EQ(pair["seeds"], nlohmann::json({1, 2, 3}));
  EXPECT_NEAR(pair["difference"]["mean"].get<double>(), 0.3, 1e-12);
  EXPECT_EQ(pair["first_lower"], 0);
  EXPECT_NEAR(pair["half_width_95"].get<double>(), 0.496868, 1e-6);
  EXPECT_NEAR(pair["test_loss"]["difference"]["mean"].get<double>(), 0.6, 1e-12);
  EXPECT_TRUE(pair["compute"].is_null());
}

/// {a1, a2} − {b1, b2}. Validation: 1.2 − 1.1, 1.3 − 1.0 and 1.2 − 0.7 at the seeds 1, 2 and 3; b2
/// has no seed 4. Test: 2.1 − 1.6 and 2.2 − 1.5; a2 has none at seed 3.
struct ComparedGroups : ::testing::Test {
  StudyResults results{
      .title = "t",
      .comparison = {.pairs = {ChosenPair{{"a1", "a2"}, {"b1", "b2"}, "A minus B"}}},
      .rows = {finished_run("a1", 1, 1.0, 2.0), finished_run("a1", 2, 1.1, 2.1),
               finished_run("a1", 3, 0.8, 2.0), finished_run("a1", 4, 9),
               finished_run("a2", 1, 1.4, 2.2), finished_run("a2", 2, 1.5, 2.3),
               finished_run("a2", 3, 1.6), finished_run("a2", 4, 9), finished_run("b1", 4, 1),
               finished_run("b1", 3, 0.6, 1.0), finished_run("b1", 2, 0.9, 1.4),
               finished_run("b1", 1, 1.0, 1.5), finished_run("b2", 1, 1.2, 1.7),
               finished_run("b2", 2, 1.1, 1.6), finished_run("b2", 3, 0.8, 1.0)}};

  PairComparison compared() const {
    return compare_chosen(summarize(results.rows), results.comparison).at(0);
  }
  void set_flops(const std::string& variant, double flops) {
    for (RunRow& row : results.rows)
      if (row.variant == variant) row.total_flops = flops;
  }
};

TEST_F(ComparedGroups, TakeTheMeansOfTheGroupsAtSeedsThatAllHave) {
  const PairComparison pair = compared();
  EXPECT_EQ(pair.label, "A minus B");
  EXPECT_EQ(pair.first, "La1, La2");
  EXPECT_EQ(pair.seeds, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(pair.all_seeds, 4u);
  // As those of ComparedPairs: 0.1, 0.3 and 0.5, and 0.5 and 0.7.
  ASSERT_TRUE(pair.validation_loss && pair.test_loss);
  EXPECT_EQ(pair.validation_loss->difference.count, 3);
  EXPECT_EQ(pair.validation_loss->lower, 0);
  EXPECT_NEAR(pair.validation_loss->difference.mean, 0.3, 1e-12);
  EXPECT_NEAR(*pair.validation_loss->half_width, 0.496868, 1e-6);
  EXPECT_EQ(pair.test_loss->difference.count, 2);
  EXPECT_NEAR(pair.test_loss->difference.mean, 0.6, 1e-12);
  EXPECT_NEAR(*pair.test_loss->half_width, 1.2706, 1e-9);
}

TEST_F(ComparedGroups, MayHaveDifferentSizes) {
  results.comparison.pairs = {ChosenPair{"b1", {"a1", "a2"}}};
  // 1.0 − 1.2, 0.9 − 1.3, 0.6 − 1.2 and 1 − 9.
  EXPECT_NEAR(compared().validation_loss->difference.mean, (-0.2 - 0.4 - 0.6 - 8) / 4, 1e-12);
  EXPECT_EQ(compared().validation_loss->lower, 4);
  EXPECT_EQ(compared().label, "Lb1 − La1, La2");
}

TEST_F(ComparedGroups, AreOfEqualComputeIfTheirMeansAre) {
  set_flops("a1", 1e12);
  set_flops("a2", 3e12);
  set_flops("b1", 2e12);
  EXPECT_EQ(compared().compute, 0);  // b2 does not state its FLOPs
  set_flops("b2", 2e12);
  EXPECT_EQ(compared().compute, 1);
  EXPECT_EQ(compared().no_order, "");
  set_flops("b2", 2.1e12);
  EXPECT_NEAR(compared().compute, 2 / 2.05, 1e-12);
  EXPECT_EQ(compared().no_order, "compute differs");
  set_flops("b2", 2e12);
  results.rows.front().causal = false;
  EXPECT_EQ(compared().no_order, "not causal");
}

TEST_F(ComparedGroups, StandInTextPageAndResults) {
  results.comparison.pairs.push_back({{"a1", "none"}, "b1"});
  const std::string text = report::results_text(results), page = report::report_page(results);
  const std::size_t at = text.find("differences of pairs");
  ASSERT_NE(at, std::string::npos) << text;
  for (const std::string& shown : {text.substr(at), page})
    penstock::testing::expect_says(shown, {"A minus B", "3 of 4", "+0.3000", "-0.1969 to +0.7969",
                                           "without a common seed: La1, none − Lb1"});
  const nlohmann::json object = to_json(results), &pair = object["pairs"][0];
  EXPECT_EQ(pair["label"].get<std::string>(), "A minus B");
  EXPECT_EQ(pair["first"], nlohmann::json({"a1", "a2"}));
  EXPECT_EQ(pair["second"], nlohmann::json({"b1", "b2"}));
  EXPECT_EQ(pair["seeds"], nlohmann::json({1, 2, 3}));
  EXPECT_NEAR(pair["validation_loss"]["difference"]["mean"].get<double>(), 0.3, 1e-12);
  EXPECT_EQ(object["pairs"][1]["second"].get<std::string>(), "b1");
  EXPECT_FALSE(object["pairs"][1].contains("label"));
  const StudyResults again = results_from_json(object, "results.json");
  EXPECT_EQ(again.comparison.pairs, results.comparison.pairs);
  EXPECT_EQ(to_json(again), object);
  for (const nlohmann::json& wrong : {nlohmann::json::array(), nlohmann::json(3)}) {
    nlohmann::json damaged = object;
    damaged["pairs"][0]["second"] = wrong;
    penstock::testing::expect_error([&] { results_from_json(damaged, "results.json"); },
                                    {"results.json", "pairs", "second"});
  }
}

TEST(ShownPairs, OfManyVariantsAreEachMinusTheReference) {
  std::vector<RunRow> rows;
  double loss = 1;
  for (const char* name : {"a", "b", "c", "d", "e", "f"})
    for (const std::int64_t seed : {1, 2}) rows.push_back(finished_run(name, seed, loss += 0.25));
  const auto many = summarize(rows);
  EXPECT_EQ(compare_all(many).size(), 15u);
  EXPECT_EQ(compare_shown(many, {.reference = "nobody"}).size(), 15u);
  const auto shown = compare_shown(many, {.reference = "c"});
  ASSERT_EQ(shown.size(), 5u);
  EXPECT_EQ(shown[0].first + shown[2].first, "LaLd");
  for (const auto& pair : shown) EXPECT_EQ(pair.second, "Lc");
  // Two variants earlier, 0.5 each.
  EXPECT_NEAR(shown[0].validation_loss->difference.mean, -1, 1e-12);
  EXPECT_NEAR(shown[4].validation_loss->difference.mean, 1.5, 1e-12);
  rows.resize(10);
  const auto few = summarize(rows);
  EXPECT_EQ(compare_shown(few, {.reference = "c"}).size(), 10u);
}

TEST_F(ComparedPairs, TellNoOrderWhereComputeDiffersOrARunIsNotCausal) {
  EXPECT_EQ(no_order(0, 0), "");  // not stated
  EXPECT_EQ(no_order(1e12, 1.019e12), "");
  EXPECT_EQ(no_order(1.019e12, 1e12), "");
  EXPECT_EQ(no_order(1.021e12, 1e12), "compute differs");
  EXPECT_EQ(no_order(1e12, 1.021e12), "compute differs");
  penstock::testing::expect_says(report::results_text(results), {"– compute differs", "0.98x"});
  EXPECT_EQ(no_order(1e12, 1e12), "");
  results.rows.back().causal = false;
  EXPECT_EQ(no_order(1e12, 1e12), "not causal");
  penstock::testing::expect_says(report::results_text(results),
                                 {"La − Lb (not causal)", "– not causal"});
}

TEST_F(ComparedPairs, StandInResultsAndComeBack) {
  results.comparison.pairs.push_back({"none", "a"});
  const nlohmann::json object = to_json(results), &pair = object["pairs"][0],
                       &missing = object["pairs"][1];
  EXPECT_EQ(pair["first"], "a");
  EXPECT_EQ(pair["second"], "b");
  EXPECT_EQ(pair["seeds"], nlohmann::json({1, 2, 3}));
  EXPECT_EQ(pair["validation_loss"]["difference"]["n"], 3);
  EXPECT_EQ(pair["validation_loss"]["first_lower"], 0);
  EXPECT_NEAR(pair["validation_loss"]["difference"]["mean"].get<double>(), 0.3, 1e-12);
  EXPECT_NEAR(pair["validation_loss"]["half_width_95"].get<double>(), 0.496868, 1e-6);
  EXPECT_NEAR(pair["test_loss"]["difference"]["mean"].get<double>(), 0.6, 1e-12);
  EXPECT_TRUE(pair["compute"].is_null());
  EXPECT_TRUE(pair["no_order"].is_null());
  EXPECT_EQ(missing["first"], "none");
  EXPECT_EQ(missing["seeds"], nlohmann::json::array());
  EXPECT_TRUE(missing["validation_loss"].is_null());
  const StudyResults again = results_from_json(object, "results.json");
  EXPECT_EQ(again.comparison.pairs, results.comparison.pairs);
  EXPECT_EQ(to_json(again), object);
  results.comparison.pairs.clear();
  EXPECT_FALSE(to_json(results).contains("pairs"));
  EXPECT_FALSE(to_json(results).contains("by_k_pairs"));
  nlohmann::json damaged = object;
  damaged["pairs"][0].erase("second");
  penstock::testing::expect_error([&] { results_from_json(damaged, "results.json"); },
                                  {"results.json", "pairs", "'second' is missing"});
}

}  // namespace
}  // namespace penstock::study
