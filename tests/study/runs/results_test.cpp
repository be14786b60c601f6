// Rows and results on disk, and refusals of damaged files.
#include "penstock/study/runs/results.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/models/model_config.h"
#include "penstock/report/report.h"
#include "penstock/study/runs/results_file.h"
#include "penstock/study/runs/run_folder.h"
#include "penstock/study/runs/run_reader.h"
#include "penstock/study/runs/run_row_json.h"
#include "penstock/study/tables/measured_k.h"
#include "tests/base/error_of.h"
#include "tests/study/fixture.h"

namespace penstock::study {
namespace {

using testing::FakeRun;
using testing::TemporaryDirectory;
using testing::write_fake_run;
using testing::write_text;

RunRow row(const std::string& variant, std::int64_t seed, const std::string& hash, double loss) {
  RunRow out{
      .variant = variant, .label = variant, .seed = seed, .config_hash = hash, .finished = true};
  out.validation = Evaluation{.loss = loss};
  return out;
}

TEST(KeptRows, MergeByVariantSeedAndHash) {
  TemporaryDirectory folder;
  const std::string path = folder.path("rows.json");
  EXPECT_TRUE(read_kept_runs(path).rows.empty());
  merge_kept_runs(path, {.rows = {row("a", 1, "h", 1.0), row("a", 2, "h", 2.0)}});
  RunRow unfinished = row("b", 1, "h", 9);
  unfinished.finished = false;
  merge_kept_runs(path, {.rows = {row("a", 1, "h", 5.0), row("a", 1, "other", 6.0), unfinished}});
  const auto rows = read_kept_runs(path).rows;
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].config_hash, "h");
  EXPECT_EQ(rows[0].validation->loss, 5.0);  // replaced
  EXPECT_EQ(rows[1].config_hash, "other");   // added beside it
  EXPECT_EQ(rows[2].seed, 2);                // untouched
}

TEST(KeptRows, OfStudiesThatWriteAtTheSameTimeAreAllKept) {
  TemporaryDirectory folder;
  const std::string path = folder.path("rows.json");
  std::vector<std::thread> studies;
  for (int study = 0; study < 4; ++study)
    studies.emplace_back([&, study] {
      for (int seed = 0; seed < 20; ++seed)
        merge_kept_runs(path, {.rows = {row(std::to_string(study), seed, "h", 1.0)}});
    });
  for (auto& each : studies) each.join();
  EXPECT_EQ(read_kept_runs(path).rows.size(), 80u);
}

TEST(KeptRows, HoldDivergedRunsUntilTheyFinish) {
  TemporaryDirectory folder;
  const std::string path = folder.path("rows.json");
  const DivergedRun run{
      .variant = "a", .label = "A", .seed = 1, .config_hash = "h", .reason = "the loss is nan"};
  merge_kept_runs(path, {.rows = {row("b", 1, "h", 1.0)}, .diverged = {run}});
  merge_kept_runs(path, {.rows = {row("b", 2, "h", 1.0)}});
  const KeptRuns kept = read_kept_runs(path);
  EXPECT_EQ(kept.rows.size(), 2u);
  ASSERT_EQ(kept.diverged.size(), 1u);
  EXPECT_EQ(kept.diverged[0].reason, run.reason);
  EXPECT_EQ(kept.diverged[0].config_hash, "h");
  merge_kept_runs(path, {.rows = {row("a", 1, "h", 1.0)}});
  EXPECT_TRUE(read_kept_runs(path).diverged.empty());
  EXPECT_EQ(read_kept_runs(path).rows.size(), 3u);
}

TEST(KeptRows, RefuseForeignFiles) {
  TemporaryDirectory folder;
  const std::string path = folder.path("rows.json");
  for (const char* text :
       {"", "[]", "{\"format\": \"other\"}",
        "{\"format\": \"penstock-rows\", \"version\": 2, \"rows\": []}",
        "{\"format\": \"penstock-rows\", \"version\": 1}",
        "{\"format\": \"penstock-rows\", \"version\": 1, \"rows\": [3]}",
        "{\"format\": \"penstock-rows\", \"version\": 1, \"rows\": [{\"variant\": "
        "\"a\", \"seed\": \"1\"}]}"}) {
    write_text(path, text);
    EXPECT_THROW(read_kept_runs(path), Error) << text;
  }
}

TEST(RunRow, SurvivesTheWayToJsonAndBack) {
  TemporaryDirectory folder;
  write_fake_run(folder.path("run"), FakeRun{.method = "remoe", .seed = 7});
  const RunRow before = read_run(folder.path("run"));
  const RunRow after = row_from_json(nlohmann::json::parse(to_json(before).dump()), "test");
  EXPECT_EQ(to_json(after), to_json(before));
  EXPECT_TRUE(after.finished);
  EXPECT_EQ(after.seed, 7);
  EXPECT_EQ(after.steps, 300);
  EXPECT_EQ(after.validation->load.size(), 4u);
  EXPECT_EQ(after.validation->load_by_domain.size(), 5u);
  EXPECT_TRUE(after.stages.settled);
  EXPECT_EQ(after.settings.at("model.router.method"), "\"remoe\"");
}

TEST(RunRow, KnowsWhetherTheRunWasCausal) {
  TemporaryDirectory folder;
  for (const bool causal : {true, false}) {
    write_fake_run(folder.path("run"), FakeRun{.method = "topk", .causal = causal});
    EXPECT_EQ(read_run(folder.path("run")).causal, causal);
    EXPECT_EQ(row_from_json(to_json(read_run(folder.path("run"))), "test").causal, causal);
  }
}

TEST(RunRow, KnowsTheNumbersInTheModelOfItsLayersWithExperts) {
  EXPECT_EQ(RunRow().model_layer(2), 2);  // without settings
  const RunRow sparse{.settings = {{"model.moe.dense_layers", "1"}, {"model.moe.every", "2"}}};
  ModelConfig model{.layers = 6, .moe = {.experts = 4, .every = 2, .dense_layers = 1}};
  model.router.method = "topk";
  EXPECT_EQ(model.moe_layer_indices(), (std::vector<std::int64_t>{1, 3, 5}));
  for (std::size_t l = 0; l < 3; ++l)
    EXPECT_EQ(sparse.model_layer(l), model.moe_layer_indices()[l]);
}

TEST(ReadRun, SumsTheFlopsOfEveryStep) {
  TemporaryDirectory folder;
  write_text(folder.path("metrics.jsonl"),
             "{\"step\":1,\"loss\":3,\"flops\":10,\"tokens_per_second\":5}\n"
             "{\"step\":2,\"loss\":2,\"flops\":4,\"tokens_per_second\":9}\n"
             "{\"step\":3,\"loss\":null,\"flops\":2.5,\"tokens_per_second\":6}\n");
  const RunRow run = read_run(folder.path());
  EXPECT_FALSE(run.finished);
  EXPECT_EQ(run.total_flops, 16.5);
  EXPECT_EQ(run.steps, 3);
  EXPECT_EQ(run.tokens_per_second, 6);
  EXPECT_EQ(run.curves.at("loss").steps, (std::vector<double>{1, 2}));
  EXPECT_FALSE(run.validation);
}

TEST(ReadRun, PassesOverATornLastLineOnly) {
  TemporaryDirectory folder;
  write_text(folder.path("metrics.jsonl"), "{\"step\":1,\"loss\":3}\n{\"step\":2,\"lo");
  EXPECT_EQ(read_run(folder.path()).steps, 1);
  write_text(folder.path("metrics.jsonl"), "{\"step\":1,\"lo\n{\"step\":2,\"loss\":3}\n");
  penstock::testing::expect_error([&] { read_run(folder.path()); },
                                  {"metrics.jsonl:1", "put the line back, or delete it"});
}

/// Other variants have as many steps as these FLOPs allow, so a log that lost its end must not
/// change them.
TEST(ReadRun, TheFlopsOfAFinishedRunAreThoseOfItsResult) {
  TemporaryDirectory folder;
  write_text(folder.path("metrics.jsonl"),
             "{\"step\":1,\"loss\":3,\"flops\":10}\n{\"step\":2,\"loss\":2,\"flops\":4}\n");
  write_text(folder.path("finished.json"), "{\"steps\":3,\"flops\":16.5}");
  EXPECT_EQ(read_run(folder.path()).total_flops, 16.5);
  write_text(folder.path("finished.json"), "{\"steps\":3}");  // of an earlier version
  EXPECT_EQ(read_run(folder.path()).total_flops, 14);
}

TEST(RunFolder, ARunWithoutACheckpointSaysWhatToDo) {
  TemporaryDirectory folder;
  penstock::testing::expect_error(
      [&] { find_checkpoint(folder.path(), RunCheckpoint::final); },
      {"has no whole final checkpoint; ", "delete the folder to train the run again"});
  penstock::testing::expect_error(
      [&] { find_checkpoint(folder.path(), RunCheckpoint::best); },
      {"has no whole best checkpoint; ", "train.eval_every = 0", "has no best one"});
}

TEST(Cells, FormatSpreads) {
  const auto digits = [](double x) { return std::to_string(x).substr(0, 4); };
  EXPECT_EQ(spread_cell({.count = 2, .mean = 1.25, .sd = 0.5}, digits).whole(), "1.25 ± 0.50");
  EXPECT_EQ(spread_cell({.count = 1, .mean = 1.25}, digits).whole(), "1.25");
  EXPECT_EQ(spread_cell({}, digits).whole(), "–");
  EXPECT_EQ(with_prefix(31044608, ""), "31.0 M");
  EXPECT_EQ(with_prefix(4.52e11, "FLOP/s"), "452 GFLOP/s");
  EXPECT_EQ(with_prefix(512, "B"), "512 B");
  EXPECT_EQ(with_prefix(999.9e3, "B"), "1.00 MB");
  // A NaN has no sign, though x86 gives it one.
  for (const double nan : {std::nan(""), -std::nan("")}) {
    EXPECT_EQ(fixed(2)(nan), "nan");
    EXPECT_EQ(spread_cell({.count = 1, .mean = nan}, fixed(2)).whole(), "nan");
    EXPECT_EQ(with_prefix(nan, "B"), "nan B");
  }
  EXPECT_EQ(fixed(2)(-1 / 0.0), "-inf");
}

TEST(RunRow, OfAnEarlierVersionIsTakenUpWithItsMeasurements) {
  const std::string text =
      R"({"by_k": [{"k": 1, "loss": 1.5, "perplexity": 4.5, "bits_per_byte": 2.25,
    "flops_per_token": 1e6, "tokens_per_second": 10.5, "peak_memory_bytes": 1e9}], "by_k_of":
    {"checkpoint": "final", "split": "test", "step": 300, "trained_k": 2.0}, "config_hash": "h",
    "curves": {}, "finetuned": [{"by_k": [{"accuracy": 0.625, "k": 2, "macro_f1": 0.5}], "hash": "f",
    "majority_accuracy": 0.5, "task": "sst2", "test_texts": 8.0}], "finished": true, "folded":
    {"by_k": [{"k": 1, "loss": 1.5, "perplexity": 4.5, "bits_per_byte": 2.25, "flops_per_token": 1e6,
    "tokens_per_second": 10.5, "peak_memory_bytes": 1e9}], "by_k_of": {"checkpoint": "final", "split":
    "test", "step": 300, "trained_k": 2.0}}, "label": "A", "routers": {"checkpoint": "final",
    "entropy": [{"initial_mean": 1.0, "initial_sd": 0.5, "mean": 0.75, "sd": 0.25}], "refused": "",
    "samples": [{"context": "a", "probabilities": [[0.25, 0.75]]}], "split": "test", "step": 300,
    "tokens": 64.0}, "seed": 1, "settings": {}, "steps": 300, "variant": "a", "warnings": []})";
  const nlohmann::json before = nlohmann::json::parse(text);
  const RunRow row = row_from_json(before, "test");
  const nlohmann::json after = to_json(row);
  for (const char* key : {"by_k", "by_k_of", "folded", "routers", "finetuned"})
    EXPECT_EQ(after[key].dump(), before[key].dump()) << key;
  EXPECT_EQ(measured_k(row)->at(1)->bits_per_byte, 2.25);
  EXPECT_EQ(measured_k(row, /*folded=*/true)->trained_k, 2);
  nlohmann::json damaged = before;
  damaged["finetuned"] = 3;
  EXPECT_THROW(row_from_json(damaged, "test"), Error);
}

TEST(ResultsTable, AlignsAndLeavesOutEmptyColumns) {
  StudyResults results{
      .rows = {row("a", 1, "h", 1.0), row("a", 2, "h", 2.0), row("bee", 1, "h", 0.5)}};
  const std::string text = report::results_text(results);
  penstock::testing::expect_says(text, {"1.5000 ± 0.7071"});
  EXPECT_EQ(text.find("tokens/s"), std::string::npos);
  penstock::testing::expect_says(text, {"a − bee         1 of 2  +0.5000 one seed"});
}

TEST(ResultsTable, MarksWhatIsNotCausalAndSaysWhy) {
  StudyResults results{.rows = {row("a", 1, "h", 1.0), row("bee", 1, "h", 0.5)}};
  EXPECT_EQ(report::results_text(results).find("causal"), std::string::npos);
  results.rows[1].causal = false;
  const std::string text = report::results_text(results);
  penstock::testing::expect_says(
      text, {"\nbee (not causal) ", "not causal: where a token goes depends on"});
  EXPECT_EQ(text.find("a (not causal)"), std::string::npos) << text;
}

TEST(ResultsTable, MarksWhatWasMeasuredByThresholds) {
  StudyResults results{.rows = {row("a", 1, "h", 1.0), row("bee", 1, "h", 0.5)}};
  EXPECT_EQ(report::results_text(results).find("thresholds"), std::string::npos);
  results.rows[1] = row_from_json(to_json(results.rows[1]), "test");
  EXPECT_FALSE(results.rows[1].by_thresholds);
  results.rows[1].by_thresholds = true;
  results.rows[1] = row_from_json(to_json(results.rows[1]), "test");
  const std::string text = report::results_text(results);
  penstock::testing::expect_says(
      text, {"\nbee (by thresholds) ", "by thresholds: trained with a choice among"});
  const std::string page = report::report_page(results);
  penstock::testing::expect_says(page, {"By thresholds: trained with"});
}

}  // namespace
}  // namespace penstock::study
