// Whole fine-tunings: a learnable task, interruptions and resumption, and refusals.
#include "penstock/finetune/run.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "penstock/base/error.h"
#include "penstock/finetune/beats_guessing.h"
#include "penstock/finetune/test_result.h"
#include "penstock/models/counts/training_memory.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/train/checkpoints/checkpoints.h"
#include "penstock/train/metrics_log.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/finetune/small_task.h"
#include "tests/models/expect_equal.h"
#include "tests/train/signal_at.h"

namespace penstock {
namespace {

class FinetuneRun : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }
  void set(const std::string& key, ConfigNode::Value value) {
    settings_.set(key, std::move(value));
  }
  /// Writes the model and the letters task with about 30 texts a class.
  void prepare(ModelKind architecture, const std::string& method, int train = 80, int test = 32) {
    model_ =
        testing::write_model(folder_.path() / "model", testing::small_body(architecture, method));
    data_ = testing::write_task(folder_.path() / "data", train, test);
    set("batch", 8);
    set("selection_share", 0.2);
  }
  FinetuneRecord record() const {
    return {.model = model_, .data = data_, .finetune = read_finetune_config(settings_)};
  }
  RunOutcome run(const std::string& name, FileSystem* files = nullptr) const {
    return finetune_run(record(), path(name), {.quiet = true, .files = files});
  }
  nlohmann::json result(const std::string& name) const {
    return nlohmann::json::parse(real_file_system().read(path(name) + "/finetune.json"));
  }
  std::string error(const std::string& name) const {
    return testing::error_or("", [&] { run(name); });
  }
  CheckpointContents newest(const std::string& name) const {
    CheckpointStore store(real_file_system(), path(name));
    return store.load(store.latest().found->step);
  }
  void expect_equal_ends(const std::string& a, const std::string& b) const {
    const CheckpointContents ours = newest(a), wanted = newest(b);
    testing::expect_equal(ours.model, wanted.model);
    testing::expect_equal(ours.optimizer, wanted.optimizer);
    for (const char* key : {"by_k", "best_step", "selection_accuracy"})
      EXPECT_EQ(result(a)[key], result(b)[key]) << key;
  }

  testing::TempDirectory folder_;
  ConfigNode settings_;
  std::string model_, data_;
};

TEST_F(FinetuneRun, LearnsWhichOfTwoLettersOccurs) {
  prepare(ModelKind::decoder, "topk", 600, 200);
  set("lr", 3e-3);
  set("epochs", 6.0);
  set("clip", 1.0);
  ASSERT_EQ(run("run"), RunOutcome::finished);
  const auto found = result("run");
  EXPECT_GT(found["accuracy"].get<double>(), 0.95) << found.dump(1);
  EXPECT_LT(found["majority_accuracy"].get<double>(), 0.65);
  ASSERT_EQ(found["by_k"].size(), 3u);  // 1, 2, 4
  EXPECT_EQ(found["by_k"][2]["k"], 4);
  EXPECT_EQ(found["train_k"], 4);
  EXPECT_EQ(found["accuracy"], found["by_k"][2]["accuracy"]);
  // finetune_test reads the saved files and finds the same, and also takes other data with these
  // classes.
  EXPECT_EQ(nlohmann::json(finetune_test(path("run"), {}))["by_k"], found["by_k"]);
  testing::write_letters(folder_.path() / "other.tsv", 300, 77);
  const auto other = finetune_test(path("run"), {.data = path("other.tsv"), .k = {4}});
  ASSERT_EQ(other["by_k"].size(), 1u);
  EXPECT_EQ(other["test_texts"], 300);
  EXPECT_GT(other["by_k"][0]["accuracy"].get<double>(), 0.9);
}

TEST_F(FinetuneRun, ResumesBitwise) {
  prepare(ModelKind::transformer_xl, "hyperrouter");
  set("steps", 12);
  set("eval_every", 5);
  set("most_test", 16);
  auto early = testing::signal_at(3, SIGTERM), late = testing::signal_at(4, SIGTERM);
  EXPECT_EQ(run("stopped", &early), RunOutcome::interrupted);
  EXPECT_EQ(run("stopped", &late), RunOutcome::interrupted);  // 3 + 4 steps
  EXPECT_EQ(run("stopped"), RunOutcome::finished);
  ASSERT_EQ(run("undisturbed"), RunOutcome::finished);
  expect_equal_ends("stopped", "undisturbed");
  const auto log = read_metrics(real_file_system(), path("stopped") + "/metrics.jsonl");
  ASSERT_EQ(log.size(), 12u);
  for (std::size_t i = 0; i < log.size(); ++i) EXPECT_EQ(log[i].at("step"), i + 1);
  EXPECT_TRUE(log[4].contains("selection") && log[11].contains("selection"));
  EXPECT_EQ(run("stopped"), RunOutcome::finished);  // again: nothing to do
}

TEST_F(FinetuneRun, InBf16RoundsTrainingAloneAndResumesBitwise) {
  prepare(ModelKind::decoder, "topk");
  set("steps", 6);
  set("eval_every", 3);
  ASSERT_EQ(run("fp32"), RunOutcome::finished);
  set("emulate_bf16", true);
  testing::expect_says(error("refused"), {"emulate_bf16 = true: precision = \"fp32\""});
  set("precision", "bf16");
  testing::expect_says(error("fp32"), {"precision: \"fp32\" -> \"bf16\""});
  auto files = testing::signal_at(2, SIGTERM);
  EXPECT_EQ(run("stopped", &files), RunOutcome::interrupted);
  EXPECT_EQ(run("stopped"), RunOutcome::finished);
  ops::reset_dispatch_counts();
  ASSERT_EQ(run("undisturbed"), RunOutcome::finished);
  auto counts = ops::dispatch_counts();
  EXPECT_GE(counts["expert_ffn/bf16"], 6 * 2);  // steps · layers; a step has a pass per length
  EXPECT_EQ(counts["expert_ffn.backward/bf16"], counts["expert_ffn/bf16"]);
  for (const auto& [name, count] : counts)
    if (name.starts_with("expert_ffn.backward/")) {
      EXPECT_EQ(name, "expert_ffn.backward/bf16");
    }
  expect_equal_ends("stopped", "undisturbed");
  const auto exact = newest("fp32").model, rounded = newest("undisturbed").model;
  EXPECT_FALSE(torch::equal(exact.at("model.layers.0.self_attn.q_proj.weight"),
                            rounded.at("model.layers.0.self_attn.q_proj.weight")));
  ops::emulate_bf16(false);
}

TEST_F(FinetuneRun, TheAuthorsProtocolResumesBitwiseWithItsMemory) {
  prepare(ModelKind::transformer_xl, "hyperrouter");
  set("protocol", "authors");
  set("steps", 6);
  set("eval_every", 3);
  set("train_memory", 6);
  auto files = testing::signal_at(2, SIGTERM);
  EXPECT_EQ(run("stopped", &files), RunOutcome::interrupted);
  EXPECT_EQ(newest("stopped").optimizer.at("memory.7.1").sizes(), (at::IntArrayRef{1, 6, 32}));
  EXPECT_EQ(run("stopped"), RunOutcome::finished);
  ASSERT_EQ(run("undisturbed"), RunOutcome::finished);
  expect_equal_ends("stopped", "undisturbed");
  const auto found = result("stopped");
  EXPECT_EQ(found["train_texts"], 80);
  EXPECT_GE(found["notes"].size(), 3u);
  EXPECT_EQ(nlohmann::json(finetune_test(path("stopped"), {}))["by_k"], found["by_k"]);
  // The result keeps the pretrained body, except for the vocabulary. The network is trained too.
  const auto start = load_tensors(path("model") + "/model.safetensors");
  const auto end = newest("stopped").model;
  EXPECT_NE(end.at("model.embed_tokens.weight").size(0), 256);
  for (const auto& [name, tensor] : start) EXPECT_TRUE(end.contains(name)) << name;
  EXPECT_FALSE(torch::equal(end.at("model.layers.0.mlp.router.scorer.network.w1"),
                            start.at("model.layers.0.mlp.router.scorer.network.w1")));
}

TEST_F(FinetuneRun, PaddingOfSegmentsIsNotCarriedAsMemory) {
  prepare(ModelKind::transformer_xl, "lory");
  set("protocol", "authors");
  set("steps", 2);
  set("train_memory", 0);
  testing::expect_says(error("run"), {"eval_memory = 0", "padding"});
}

TEST_F(FinetuneRun, TheHypernetworkStaysFrozenAndTheBodyMoves) {
  prepare(ModelKind::transformer_xl, "hyperrouter");
  set("steps", 2);
  ASSERT_EQ(run("run"), RunOutcome::finished);
  const auto start = load_tensors(path("model") + "/model.safetensors");
  for (const auto& [name, tensor] : newest("run").model) {
    if (name.starts_with("classifier.")) continue;
    const bool same = torch::equal(tensor, start.at(name));
    EXPECT_EQ(same, name.find("network") != std::string::npos || name == "lm_head.bias") << name;
  }
}

TEST_F(FinetuneRun, LogsAndWarnsAsTrainingDoes) {
  prepare(ModelKind::decoder, "vanilla");
  ModelConfig heavy = testing::small_body(ModelKind::decoder, "vanilla");
  heavy.router.parts["z-loss"].set("coefficient", 100.0);
  model_ = testing::write_model(folder_.path() / "heavy", heavy);
  set("steps", 21);
  set("clip", 1e-6);
  auto early = testing::signal_at(6, SIGTERM);
  ASSERT_EQ(run("warned", &early), RunOutcome::interrupted);
  ASSERT_EQ(run("warned"), RunOutcome::finished);
  const auto log = read_metrics(real_file_system(), path("warned") + "/metrics.jsonl");
  ASSERT_EQ(log.size(), 21u);
  for (const auto& line : log) {
    EXPECT_GT(line.at("grad_norm").get<double>(), 0);
    EXPECT_GT(line.at("auxiliary_losses").at("z-loss").get<double>(), line.at("loss"));
    EXPECT_TRUE(line.at("auxiliary_losses").contains("load-balance"));
    EXPECT_FALSE(line.contains("gradient_norm") || line.contains("auxiliary_loss"));
  }
  const auto warnings = result("warned").at("warnings");
  ASSERT_EQ(warnings.size(), 2u) << warnings.dump(1);
  EXPECT_EQ(warnings[0].at("step"), 1);
  EXPECT_EQ(warnings[0].at("name"), "auxiliary loss");
  testing::expect_says(warnings[0].at("remedy").get<std::string>(), {"auxiliary_losses = false"});
  EXPECT_EQ(warnings[1].at("step"), 20);  // counted across the interruption
  EXPECT_EQ(warnings[1].at("name"), "clipping");
  EXPECT_NE(warnings[1].at("finding").get<std::string>().find("10 times clip = 1e-06"),
            std::string::npos)
      << warnings[1].dump();
  const auto files = real_file_system().list(path("warned/events"));
  const std::string events = real_file_system().read(path("warned/events/" + files[0]));
  for (const char* tag : {"train/grad_norm", "auxiliary_losses/z-loss"})
    EXPECT_NE(events.find(tag), std::string::npos) << tag;
  // Losses that are not trained on are not logged, and give no warnings.
  set("auxiliary_losses", false);
  set("clip", 0.0);
  ASSERT_EQ(run("without"), RunOutcome::finished);
  EXPECT_TRUE(result("without").at("warnings").empty());
  EXPECT_FALSE(read_metrics(real_file_system(), path("without") + "/metrics.jsonl")
                   .back()
                   .contains("auxiliary_losses"));
}

TEST_F(FinetuneRun, ARunOfBeforeGoesOnWithTheScoreThatItsStopLeftOut) {
  prepare(ModelKind::decoder, "vanilla");
  set("steps", 6);
  set("eval_every", 3);
  auto early = testing::signal_at(3, SIGTERM);
  ASSERT_EQ(run("older", &early), RunOutcome::interrupted);
  // Older runs wrote the log line first, with other names, and marked the checkpoint as unscored.
  CheckpointStore store(real_file_system(), path("older"));
  CheckpointContents contents = store.load(3);
  contents.trainer = {{"step", 3}, {"seed", 1234}, {"unscored", true}};
  store.save(3, contents);
  auto log = read_metrics(real_file_system(), path("older") + "/metrics.jsonl");
  std::ofstream file(path("older") + "/metrics.jsonl");
  for (auto& line : log) {
    line["gradient_norm"] = line["grad_norm"];
    for (const char* name : {"grad_norm", "auxiliary_losses", "selection"}) line.erase(name);
    file << line.dump() << "\n";
  }
  file.close();
  ASSERT_EQ(run("older"), RunOutcome::finished);
  ASSERT_EQ(run("undisturbed"), RunOutcome::finished);
  expect_equal_ends("older", "undisturbed");
  log = read_metrics(real_file_system(), path("older") + "/metrics.jsonl");
  const auto wanted = read_metrics(real_file_system(), path("undisturbed") + "/metrics.jsonl");
  ASSERT_EQ(log.size(), 6u);
  EXPECT_EQ(log[2].at("selection"), wanted[2].at("selection"));
  EXPECT_EQ(log[2].at("gradient_norm"), wanted[2].at("grad_norm"));
}

TEST_F(FinetuneRun, EveryKindOfModelIsTaken) {
  for (const ModelKind architecture : {ModelKind::decoder, ModelKind::transformer_xl})
    for (const char* method : {"dense", "remoe", "switch", "lory", "thor"}) {
      ModelConfig config = testing::small_body(architecture, method);
      if (std::string(method) == "lory") config.router.parts["lory"].set("segment_length", 4);
      const std::string name = std::string(word(architecture)) + method;
      model_ = testing::write_model(folder_.path() / ("m" + name), config);
      data_ = testing::write_task(folder_.path() / "data", 40, 8);
      set("steps", 2);
      set("batch", 4);
      set("selection_share", 0.2);
      ASSERT_EQ(run(name), RunOutcome::finished);
      const auto found = result(name);
      EXPECT_EQ(found["by_k"].size(), std::string(method) == "switch" ? 3u : 1u) << name;
      EXPECT_TRUE(found.contains("accuracy")) << name;
    }
}

TEST_F(FinetuneRun, ALossThatIsNotFiniteSavesTheLastGoodStep) {
  prepare(ModelKind::decoder, "dense");
  set("lr", 3e38);  // the first update makes sums of weights overflow
  set("steps", 10);
  set("eval_every", 0);
  const std::string said = error("run");
  EXPECT_TRUE(said.find("not finite") != said.npos || said.find("the loss is") != said.npos)
      << said;
  testing::expect_says(said, {"is saved; begin another run with a lower lr"});
  EXPECT_TRUE(CheckpointStore(real_file_system(), path("run")).latest().found);
}

TEST_F(FinetuneRun, MemoryIsCountedForTheLargestPassAndTheModelItselfIsThere) {
  prepare(ModelKind::decoder, "topk", 200, 8);
  const FinetuneJob job = prepare_finetune_job(record());
  const TrainingMemory memory = finetune_memory(job);
  std::map<std::size_t, std::int64_t> lengths;
  for (const auto& text : job.train.texts) ++lengths[text.size()];
  std::int64_t tokens = 0;
  for (const auto& [length, count] : lengths)
    tokens = std::max(tokens, std::min<std::int64_t>(8, count) * static_cast<std::int64_t>(length));
  ModelConfig all = testing::small_body(ModelKind::decoder, "topk");
  all.router.k = 4;  // train_k = 0
  EXPECT_EQ(memory.activation_bytes, training_memory(all.resolved(), 1, tokens).activation_bytes);
  const auto rest = static_cast<double>(memory.total() - memory.parameter_bytes);
  EXPECT_NO_THROW(check_finetune_memory(job, rest));
  testing::expect_error([&] { check_finetune_memory(job, rest - 1); },
                        {"batch = 8", "sequence_length = 64", "train_k", "options.force"});
}

TEST_F(FinetuneRun, WhatDoesNotFitIsRefusedWithTheReason) {
  prepare(ModelKind::decoder, "dense");
  set("steps", 2);
  ASSERT_EQ(run("run"), RunOutcome::finished);
  set("lr", 5e-4);
  testing::expect_says(error("run"), {"lr: 1e-04 -> 5e-04"});
  set("train_k", 2);
  testing::expect_says(error("other"), {"dense"});
  settings_ = {};
  set("protocol", "authors");
  testing::expect_says(error("other"), {"a decoder has none"});
  settings_ = {};
  testing::write_letters(folder_.path() / "data" / "dev.tsv", 9, 5);
  EXPECT_THROW(finetune_test(path("run"), {}), Error);  // the test set has changed
  std::ofstream(folder_.path() / "five.txt") << "4 good\n0 bad\n1 so so\n2 well\n3 fine\n";
  testing::expect_error([&] { finetune_test(path("run"), {.data = path("five.txt")}); },
                        {"classes"});
}

TEST_F(FinetuneRun, WhatLearntNothingSaysSoAndTensorBoardHasItsCurves) {
  prepare(ModelKind::decoder, "topk");
  set("lr", 0.0);
  set("epochs", 1.0);
  ASSERT_EQ(run("idle"), RunOutcome::finished);
  const auto result = nlohmann::ordered_json::parse(
      real_file_system().read(path("idle/" + std::string(kFinetuneResult))));
  ASSERT_FALSE(result.at("notes").empty());
  EXPECT_EQ(result["notes"].back().get<std::string>(), why_nothing_was_learnt(result));
  const auto files = real_file_system().list(path("idle/events"));
  ASSERT_EQ(files.size(), 1U);
  const std::string events = real_file_system().read(path("idle/events/" + files[0]));
  for (const char* tag : {"train/loss", "train/accuracy", "selection/accuracy"})
    EXPECT_NE(events.find(tag), std::string::npos) << tag;
}

}  // namespace
}  // namespace penstock
