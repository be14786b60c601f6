// Reports of a study on experts by token, flips of single steps and throughput: how they are
// measured, kept and shown. The trainings and models are small and real.
#include <gtest/gtest.h>

#include <filesystem>

#include "penstock/analysis/flips.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/report/report.h"
#include "penstock/study/json_field.h"
#include "tests/study/trained_study_fixture.h"

namespace penstock::study {
namespace {

using nlohmann::json;
using testing::write_text;

/// Two small trainings, top-1 and dense, of eight steps with a checkpoint every second step.
class RoutingReports : public testing::TrainedStudy {
 protected:
  void SetUp() override {
    write_base("", "checkpoint_every = 2\nkeep_last = 9\n");
    write_text(path("study.toml"),
               "base = \"base.toml\"\nreport = [\"token-experts\", \"flips\", \"throughput\"]\n"
               "token_layer = 1\n"
               "[variants.top1]\nset = {\"model.moe.experts\" = 4, \"model.router.method\" = "
               "\"topk\"}\npublished = {train-tflops = 103.49}\n"
               "[variants.dense]\nset = {\"model.router.method\" = \"dense\"}\n");
  }
};

TEST_F(RoutingReports, MeasureKeepAndShow) {
  const StudyResults results = run();
  ASSERT_EQ(results.rows.size(), 2u);
  const json& top1 = results.rows[0].measured;
  const json& flips = top1.at("flips").at("flips");
  ASSERT_EQ(flips.size(), 3u);  // after 2, 4 and 6; no step follows step 8
  for (const json& flip : flips) {
    // With top-1 of 4 experts at most half of the states can flip.
    EXPECT_GE(flip.at("rate").get<double>(), 0);
    EXPECT_LE(flip.at("rate").get<double>(), 0.5);
  }
  EXPECT_GT(flips[0].at("rate").get<double>(), 0);  // three steps at 3e-3 flip some token
  const json& experts = top1.at("token_experts");
  EXPECT_EQ(experts.at("layer"), 1);
  EXPECT_EQ(experts.at("experts").size(), 4u);
  for (const json& bin : experts.at("by_frequency")) EXPECT_NEAR(bin.at("active"), 1, 1e-9);
  EXPECT_GT(top1.at("throughput").at("tokens_per_second").get<double>(), 0);
  EXPECT_TRUE(results.rows[1].measured.at("flips").contains("refused"));
  const std::string text = report::results_text(results);
  for (const char* part :
       {"Flip rate", "after 4", "Flip count", "Active experts by a token", "of layer 1",
        "Useful FLOPs per second", "103.49 TFLOP/s", "a dense model has no experts"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  // Another seed's run with the same reason adds no line.
  StudyResults two_seeds = results;
  two_seeds.rows.push_back(two_seeds.rows[1]);
  two_seeds.rows.back().seed = 2;
  const std::string of_two = report::results_text(two_seeds);
  const std::string reason = "dense: not measured: a dense model has no experts";
  ASSERT_NE(of_two.find(reason), std::string::npos);
  EXPECT_EQ(of_two.find(reason), of_two.rfind(reason));
  // The figures are kept with the runs and not measured again.
  EXPECT_EQ(report::results_text(run()), text);
}

/// The run's own weights after steps 4 and 5 give the flips after step 4.
TEST_F(RoutingReports, AFlipIsOfTheRunsOwnNextStep) {
  write_text(path("study.toml"),
             "base = \"base.toml\"\nset = {\"train.checkpoint_every\" = 1}\nreport = "
             "[\"flips\"]\n[variants.top1]\nset = {\"model.moe.experts\" = 4, "
             "\"model.router.method\" = \"topk\"}\n");
  const StudyResults results = run();
  const json flips = results.rows[0].measured["flips"]["flips"];
  ASSERT_EQ(flips.size(), 7u);
  std::string checkpoints;
  for (const auto& entry : std::filesystem::directory_iterator(path("out/runs")))
    checkpoints = (entry.path() / "checkpoints" / "step-").string();
  const Corpus corpus = Corpus::open(path("corpus"));
  const auto active = [&](const char* step) {
    return analysis::active_experts(*load_model(checkpoints + step), corpus,
                                    {.tokens = 4096, .sequence_length = 16});
  };
  EXPECT_EQ(flips[3]["step"], 4);
  EXPECT_EQ(flips[3]["rate"], analysis::flip_rate(active("4"), active("5")));
}

}  // namespace
}  // namespace penstock::study
