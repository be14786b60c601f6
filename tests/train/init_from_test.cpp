// Training that begins with a model: its config, its weights, the settings that a recipe may add,
// and resuming.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "penstock/base/error.h"
#include "penstock/dist/transport.h"
#include "penstock/io/toml.h"
#include "penstock/models/files/content_hash.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/formats/rank_slices.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/train/checkpoints/checkpoints.h"
#include "penstock/train/initial_model.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/run.h"
#include "penstock/train/run_identity.h"
#include "penstock/train/trainer.h"
#include "tests/base/error_of.h"
#include "tests/dist/ranks.h"
#include "tests/ops/allocated_bytes.h"
#include "tests/routers/parts.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

struct InitFrom : ::testing::Test {
  InitFrom() {
    fs::remove_all(folder);
    fs::create_directories(folder);
    corpus = testing::small_corpus(folder).path();
    run(recipe("topk", 6), "parent");
    model = folder / "parent/checkpoints/step-6";
  }
  ~InitFrom() override { fs::remove_all(folder); }

  ConfigNode recipe(const std::string& method, std::int64_t steps) const {
    ConfigNode node = testing::small_recipe_node(method, 4, 16, corpus);
    node.set("train.steps", steps);
    node.set("run.threads", 1);
    node.set("run.tensorboard", false);
    node.set("run.report", false);
    return node;
  }
  /// A recipe that continues the model, without a [model] table of its own.
  ConfigNode continued(std::int64_t steps) const {
    ConfigNode node, whole = recipe("topk", steps);
    for (const char* table : {"train", "data", "run"}) node.set(table, *whole.find(table));
    node.set("train.init_from", model.string());
    return node;
  }
  void run(const ConfigNode& node, const std::string& name) const {
    train_run(node, (folder / name).string(), {.quiet = true});
  }
  static std::map<std::string, at::Tensor> tensors(const fs::path& directory) {
    const auto loaded = load_model(directory.string());
    std::map<std::string, at::Tensor> out;
    for (const auto& [name, tensor] : file_tensors(*loaded)) out[name] = tensor.clone();
    return out;
  }
  /// Changes the last byte of the model's weights.
  static void damage(const fs::path& directory) {
    std::fstream file(directory / "model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end).put('\1');
  }

  fs::path folder = fs::temp_directory_path() / ("penstock-init-" + std::to_string(getpid()));
  fs::path model;
  std::string corpus;
};

TEST_F(InitFrom, TheFirstStepHasTheModelsWeights) {
  const Recipe read = read_recipe(continued(4));
  EXPECT_EQ(read.model.moe.experts, 4);
  EXPECT_EQ(read.model.router.method, "topk");
  EXPECT_EQ(read.train.init_hash, "");  // the hash requires reading the whole model
  EXPECT_EQ(with_initial_hash(read).train.init_hash, model_content_hash(model.string()));
  Trainer trainer(read, Corpus::open(corpus));
  const auto expected = tensors(model);
  const auto started = trainer.model_tensors();
  ASSERT_EQ(started.size(), expected.size());
  for (const auto& [name, tensor] : started) EXPECT_TRUE(tensor.equal(expected.at(name))) << name;
  trainer.advance();
  EXPECT_FALSE(trainer.model_tensors()
                   .at("model.embed_tokens.weight")
                   .equal(expected.at("model.embed_tokens.weight")));
}

/// Checkpoints keep what the model's folder says of chats and generation, because they have its
/// tokenizer.
TEST_F(InitFrom, ACheckpointKeepsTheChatTemplate) {
  auto& files = real_file_system();
  const std::string chat = "{{ '<|im_start|>' }}\n", generation = "{\"top_p\": 0.8}\n";
  std::ofstream(model / "chat_template.jinja") << chat;
  std::ofstream(model / "generation_config.json") << generation;
  run(continued(2), "on");
  const fs::path saved = folder / "on/checkpoints/step-2";
  EXPECT_EQ(files.read(saved / "chat_template.jinja"), chat);
  EXPECT_EQ(files.read(saved / "generation_config.json"), generation);
  // A model without a tokenizer may have had another one. It is no checkpoint: that lists its
  // files.
  fs::remove(model / "manifest.json");
  for (const auto& [name, text] : Corpus::open(corpus).tokenizer().files())
    fs::remove(model / name);
  run(continued(2), "without");
  EXPECT_FALSE(fs::exists(folder / "without/checkpoints/step-2/chat_template.jinja"));
  EXPECT_FALSE(fs::exists(folder / "without/checkpoints/step-2/generation_config.json"));
}

TEST_F(InitFrom, EachRankHasItsSlicesOfTheModel) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  const Recipe recipe = with_vocabulary(read_recipe(continued(4)), Corpus::open(corpus));
  const auto whole = load_model(model.string());
  const std::map<std::string, at::Tensor> expected = held_tensors(*whole);
  for (const dist::Layout& layout :
       {dist::Layout{.data = 2, .pipeline = 2, .expert = 2},
        dist::Layout{.data = 2, .tensor = 2, .expert = 2},
        dist::Layout{.data = 2, .tensor = 2, .expert = 4, .whole_experts = true}})
    testing::on_ranks(4, [&](const dist::ProcessGroup& group) {
      const ModelPlace place = place_in(recipe.model, dist::make_mesh(group, layout));
      const auto slices = model_slices(recipe.model, place.part);
      const auto held = held_tensors(*initial_model(recipe, place));
      EXPECT_EQ(held.size(), slices.size());
      std::size_t divided = 0;
      for (const auto& [name, tensor] : held) {
        const Slice& slice = slices.at(name);
        divided += !slice.whole();
        EXPECT_EQ(tensor.scalar_type(), at::kFloat) << name;
        EXPECT_TRUE(tensor.equal(take(expected.at(name), slice))) << name << group.rank();
      }
      EXPECT_GE(divided, 2U);  // the two matrices of a layer's experts
    });
}

TEST_F(InitFrom, ARankReadsNoMoreThanItsPart) {
  ConfigNode node = recipe("topk", 4);
  node.set("model.layers", 8);
  run(node, "deep");
  node = continued(4);
  node.set("train.init_from", (folder / "deep/checkpoints/step-4").string());
  const Recipe recipe = with_vocabulary(read_recipe(node), Corpus::open(corpus));
  const auto bytes_of = [](const LanguageModel& model) {
    std::int64_t out = 0;
    for (const auto& [name, tensor] : held_tensors(model))
      out += static_cast<std::int64_t>(tensor.nbytes());
    return out;
  };
  const std::int64_t whole = bytes_of(*load_model(recipe.train.init_from));
  for (const int stage : {0, 1}) {
    const ModelPlace place{.part = part_of_rank(recipe.model, {.pipeline = 2}, stage)};
    const testing::AllocatedBytes allocated;
    const auto part = initial_model(recipe, place);
    EXPECT_LT(bytes_of(*part), 0.7 * static_cast<double>(whole));
    EXPECT_LT(allocated.peak(), 0.9 * static_cast<double>(whole));
  }
}

TEST_F(InitFrom, ARankNamesATensorOfItsPartThatIsNotFinite) {
  const std::string name = "model.layers.1.self_attn.o_proj.weight";
  TensorMap changed = tensors(model);
  changed.at(name)[3][2] = std::numeric_limits<double>::infinity();
  save_tensors(real_file_system(), model / "model.safetensors", changed);
  const Recipe recipe = with_vocabulary(read_recipe(continued(4)), Corpus::open(corpus));
  const auto load = [&](int stage) {
    initial_model(recipe, {.part = part_of_rank(recipe.model, {.pipeline = 2}, stage)});
  };
  EXPECT_NO_THROW(load(0));  // another rank reads that layer
  const std::string said = testing::error_of([&] { load(1); });
  testing::expect_says(said, {"tensor '" + name + "' holds NaN or infinity"});
}

TEST_F(InitFrom, AStoppedRunGoesOnBitwise) {
  ConfigNode node = continued(6);
  node.set("model.router.load-balance.coefficient", 0.5);
  node.set("train.checkpoint_every", 2);
  node.set("train.keep_last", 9);
  run(node, "whole");
  fs::create_directories(folder / "part/checkpoints");
  fs::copy(folder / "whole/config.toml", folder / "part/config.toml");
  fs::copy(folder / "whole/checkpoints/step-2", folder / "part/checkpoints/step-2",
           fs::copy_options::recursive);
  run(node, "part");
  const auto a = tensors(folder / "whole/checkpoints/step-6"),
             b = tensors(folder / "part/checkpoints/step-6");
  for (const auto& [name, tensor] : a) EXPECT_TRUE(tensor.equal(b.at(name))) << name;
}

TEST_F(InitFrom, WhatTheRecipeSaysOfTheModelMustBeSo) {
  const auto error_of = [&](const std::string& key, ConfigNode::Value value) {
    ConfigNode node = continued(4);
    node.set(key, ConfigNode(std::move(value), "r.toml:3"));
    return testing::error_or("", [&] { with_initial_hash(read_recipe(node)); });
  };
  EXPECT_EQ(error_of("model.d_model", std::int64_t{32}), "");
  EXPECT_EQ(error_of("model.vocab", std::int64_t{0}), "");  // 0: the corpus's vocabulary
  EXPECT_EQ(error_of("model.router.method", std::string("topk")), "");
  testing::expect_says(error_of("model.d_model", std::int64_t{64}), {"model.d_model: 32 -> 64"});
  testing::expect_says(error_of("model.router.k", 2.0), {"model.router.k"});
  testing::expect_says(error_of("model.router.method", std::string("remoe")), {"model.router"});
  testing::expect_says(error_of("train.init_from", std::string("nowhere")), {"nowhere"});
  testing::expect_says(error_of("train.init_hash", std::string("0123")), {"another model"});
}

TEST_F(InitFrom, CoefficientsOfLossesMayChange) {
  const auto first_step = [&](const ConfigNode& node) {
    Trainer trainer(read_recipe(node), Corpus::open(corpus));
    return trainer.advance().report;
  };
  ConfigNode node = continued(4);
  const StepReport before = first_step(node);
  node.set("model.router.load-balance.coefficient", 0.5);
  const StepReport after = first_step(node);
  EXPECT_EQ(after.loss, before.loss);
  const double usual = before.auxiliary_losses.at("load-balance");
  EXPECT_GT(usual, 0);
  // The model's own coefficient is 0.01.
  EXPECT_NEAR(after.auxiliary_losses.at("load-balance"), 50 * usual, 1e-4 * usual);
  // The run's checkpoint and config.toml have the new coefficient.
  run(node, "tuned");
  const auto coefficient = [](const ModelConfig& model) {
    return testing::option<double>(resolve(model.router), "load-balance", "coefficient");
  };
  const std::string checkpoint = (folder / "tuned/checkpoints/step-4").string();
  EXPECT_EQ(coefficient(read_model_config(checkpoint)), 0.5);
  EXPECT_EQ(coefficient(read_recipe(read_toml((folder / "tuned/config.toml").string())).model),
            0.5);
  testing::expect_says(difference(read_recipe(continued(4)), read_recipe(node)),
                       {"model.router.load-balance.coefficient: 0.01 -> 0.5"});
}

TEST_F(InitFrom, NothingElseOfTheRouterMayChange) {
  const auto error_of = [&](const std::string& key, ConfigNode::Value value) {
    ConfigNode node = continued(4);
    node.set("model.router.load-balance.coefficient", 0.5);
    node.set(key, ConfigNode(std::move(value), "r.toml:3"));
    return testing::error_or("", [&] { read_recipe(node); });
  };
  const std::string scope = error_of("model.router.load-balance.scope", std::string("global"));
  testing::expect_says(scope, {"model.router.load-balance.scope: \"micro-batch\" -> \"global\"",
                               "only these may change: model.router.load-balance.coefficient"});
  testing::expect_says(error_of("model.router.lr_scale", 2.0), {"only these may change"});
  testing::expect_says(error_of("model.router.z-loss.coefficient", 0.0), {"not in use"});
  testing::expect_says(error_of("model.router.load-balance.coefficient", -1.0), {"out of range"});
}

TEST_F(InitFrom, AnotherTokenizersCorpusIsRefused) {
  const std::string corpus = (folder / "words").string();
  prepare_corpus(
      {.inputs = {{.path = (folder / "text.txt").string()}}, .tokenizer = "words", .out = corpus});
  ConfigNode node = continued(4);
  node.set("data.corpus", corpus);
  testing::expect_error([&] { run(node, "other"); }, {"was made with another tokenizer"});
}

TEST_F(InitFrom, ATokenizerThatDoesNotOpenIsTold) {
  const Recipe recipe = read_recipe(continued(4));
  EXPECT_EQ(initial_tokenizer_note(recipe), "");
  std::ofstream(model / "tokenizer.json") << "{";
  testing::expect_says(initial_tokenizer_note(recipe),
                       {"train.init_from: no tokenizer of the model opens (", "tokenizer.json",
                        "its ids are taken to be those of data.corpus"});
}

TEST_F(InitFrom, WhatIsNoModelIsToldWithItsKey) {
  ConfigNode node = continued(4);
  node.set("train.init_from", (folder / "nowhere").string());
  const std::string said = testing::error_of([&] { read_recipe(node); });
  EXPECT_TRUE(said.starts_with("train.init_from: ")) << said;
  testing::expect_says(said, {"nowhere"});
}

TEST_F(InitFrom, ARunStandsForItsBestCheckpoint) {
  // Three checkpoints of one run. The middle one is the best.
  CheckpointStore store(real_file_system(), folder / "parent", {.keep_last = 9});
  const CheckpointContents contents = store.load(6);
  CheckpointContents better = contents;
  better.model.begin()->second = better.model.begin()->second + 1;
  store.save(7, contents, 3.0);
  store.save(8, better, 2.0);
  store.save(9, contents, 2.5);
  const std::string best = (folder / "parent/checkpoints/step-8").string();
  ConfigNode node = continued(4);
  node.set("train.init_from", ConfigNode((folder / "parent").string(), "r.toml:7"));
  const Recipe recipe = with_initial_hash(read_recipe(node));
  EXPECT_EQ(recipe.train.init_from, best);
  EXPECT_EQ(recipe.train.init_hash, model_content_hash(best));
  ASSERT_EQ(recipe.notes.size(), 1U);
  EXPECT_EQ(recipe.notes[0], "r.toml:7: train.init_from = " + (folder / "parent").string() +
                                 " is a run; training begins with its best checkpoint, " + best);
  // The recipe records the checkpoint that training began with. A later best checkpoint does not
  // change it.
  EXPECT_EQ(difference(recipe, read_recipe(written_out(recipe))), "");
  run(node, "child");
  EXPECT_EQ(read_recipe(read_toml((folder / "child/config.toml").string())).train.init_from, best);
}

TEST_F(InitFrom, ARecordedRecipeIsReadWithoutTheModelThatItBeganWith) {
  run(continued(4), "child");
  const std::string config = (folder / "child/config.toml").string();
  const Recipe with = read_recipe(read_toml(config));
  fs::rename(model, folder / "away");
  const Recipe without = read_recorded_recipe(read_toml(config));
  EXPECT_EQ(difference(with, without), "");
  EXPECT_THROW(with_initial_hash(without), Error);
  EXPECT_THROW(read_recipe(continued(4)), Error);  // this recipe does not describe the model
}

TEST_F(InitFrom, ARunIsNotTakenUpWithAnotherModelInItsPlace) {
  run(continued(4), "child");
  damage(model);
  fs::remove(model / "manifest.json");  // else the model is a damaged checkpoint
  testing::expect_error([&] { run(continued(4), "child"); },
                        {"child: began with the model of hash "});
}

TEST_F(InitFrom, ADamagedCheckpointIsToldBeforeItTrains) {
  damage(model);
  const std::string said = testing::error_of([&] { run(continued(4), "child"); });
  testing::expect_says(said, {"train.init_from: ", "model.safetensors: checksum differs"});
  EXPECT_FALSE(fs::exists(folder / "child"));
}

TEST_F(InitFrom, ARunWithoutACheckpointIsAnErrorThatNamesIt) {
  fs::create_directories(folder / "empty/checkpoints");
  ConfigNode node = continued(4);
  node.set("train.init_from", (folder / "empty").string());
  testing::expect_error([&] { read_recipe(node); }, {"empty: has no complete checkpoint yet"});
}

TEST_F(InitFrom, ItsContentIsTheRunAndItsPlaceIsNot) {
  const auto read = [](const ConfigNode& node) { return with_initial_hash(read_recipe(node)); };
  const Recipe before = read(continued(4));
  const fs::path moved = folder / "moved";
  fs::copy(model, moved, fs::copy_options::recursive);
  ConfigNode node = continued(4);
  node.set("train.init_from", moved.string());
  EXPECT_EQ(difference(before, read(node)), "");
  damage(moved);
  fs::remove(moved / "manifest.json");  // a model from elsewhere
  testing::expect_says(difference(before, read(node)), {"train.init_hash"});
}

TEST_F(InitFrom, ARouterMayLearnAtARateOfItsOwn) {
  ConfigNode node = recipe("topk", 1);
  node.set("train.weight_decay", 0.0);
  node.set("train.warmup_steps", 0);
  const auto moved = [&](double scale) {
    node.set("model.router.lr_scale", scale);
    Trainer trainer(read_recipe(node), Corpus::open(corpus));
    const auto value = [&](const char* name) { return trainer.model_tensors().at(name).clone(); };
    const auto router = value("model.layers.0.mlp.gate.weight"),
               head = value("model.embed_tokens.weight");
    trainer.advance();
    return std::pair((value("model.layers.0.mlp.gate.weight") - router).abs().max().item<double>(),
                     (value("model.embed_tokens.weight") - head).abs().max().item<double>());
  };
  const auto usual = moved(1), slow = moved(0.25);
  EXPECT_NEAR(usual.first, 3e-3, 1e-5);  // Adam's first step has length lr
  EXPECT_NEAR(slow.first, 0.75e-3, 1e-5);
  EXPECT_EQ(slow.second, usual.second);
}

}  // namespace
}  // namespace penstock
