// Study files: overrides, order, and errors that name file and line.
#include "penstock/study/study_config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fixture.h"
#include "penstock/base/error.h"
#include "penstock/io/toml.h"
#include "penstock/study/config_hash.h"
#include "penstock/train/recipe.h"

namespace penstock::study {
namespace {

using testing::TemporaryDirectory;
using testing::write_text;

std::string value(const Variant& variant, const std::string& key) {
  return flatten(variant.recipe).at(key);
}

std::string error_of(const std::string& text) {
  TemporaryDirectory folder;
  write_text(folder.path("a.toml"), "[train]\nsteps = 1\n");
  write_text(folder.path("s.toml"), text);
  try {
    read_study(folder.path("s.toml"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(StudyConfig, LaysOverridesInOrder) {
  TemporaryDirectory folder;
  write_text(folder.path("a.toml"), "[train]\nsteps = 1\nlr = 0.5\nseed = 9\nwarmup_steps = 3\n");
  write_text(folder.path("sub/b.toml"), "[train]\nsteps = 2\n");
  write_text(
      folder.path("s.toml"),
      "base = 'a.toml'\nseeds = [4, 5]\nset = {'train.steps' = 10, 'train.lr' = 0.25}\n"
      "[variants.zebra]\nset = {'train.steps' = 20}\n"
      "[variants.ant]\nlabel = 'Ant'\nrecipe = 'sub/b.toml'\n[variants.ant.set.train]\nlr = 1.0\n");
  const std::vector<std::string> overrides{"train.warmup_steps=7"};
  const StudyConfig study = read_study(folder.path("s.toml"), overrides);
  EXPECT_EQ(study.name, "s");
  EXPECT_EQ(study.seeds, (std::vector<std::int64_t>{4, 5}));
  ASSERT_EQ(study.variants.size(), 2u);
  EXPECT_EQ(study.variants[0].name, "zebra");  // the file's order, not the alphabet's
  EXPECT_EQ(study.variants[0].label, "zebra");
  EXPECT_EQ(value(study.variants[0], "train.steps"), "20");
  EXPECT_EQ(value(study.variants[0], "train.lr"), "0.25");
  EXPECT_EQ(value(study.variants[0], "train.warmup_steps"), "7");
  EXPECT_EQ(study.variants[1].label, "Ant");
  EXPECT_EQ(value(study.variants[1], "train.steps"), "10");
  EXPECT_EQ(value(study.variants[1], "train.lr"), "1.0");
}

TEST(StudyConfig, NamesFileLineAndNearestKey) {
  EXPECT_NE(error_of("base = 'a.toml'\nsedes = [1]\n[variants.a]\n").find("s.toml:2: sedes"),
            std::string::npos);
  const std::string in_variant = error_of("base = 'a.toml'\n[variants.a]\nlable = 'x'\n");
  EXPECT_NE(in_variant.find("s.toml:3: variants.a.lable"), std::string::npos);
  EXPECT_NE(in_variant.find("'label'"), std::string::npos);
  EXPECT_NE(error_of("base = 'a.toml'\n[variants.a]\n[variants.a.sett]\nx = 1\n").find("'set'"),
            std::string::npos);
  EXPECT_NE(error_of("base = 'a.toml'\n[variant.a]\n").find("'variants'"), std::string::npos);
}

TEST(StudyConfig, RefusesWhatCannotBeRun) {
  EXPECT_NE(error_of("[variants.a]\n").find("has no recipe"), std::string::npos);
  EXPECT_NE(error_of("base = 'a.toml'\n").find("at least one [variants.NAME]"), std::string::npos);
  EXPECT_NE(error_of("base = 'none.toml'\n[variants.a]\n").find("none.toml"), std::string::npos);
  EXPECT_NE(error_of("base = 'a.toml'\nseeds = [1, 1]\n[variants.a]\n").find("same seed twice"),
            std::string::npos);
  EXPECT_NE(error_of("base = 'a.toml'\n[variants.'../x']\n").find("names a folder"),
            std::string::npos);
  EXPECT_NE(error_of("base = 'a.toml'\n[variants.a]\nmatch_compute = 'b'\n").find("'b'"),
            std::string::npos);
  EXPECT_NE(error_of("base = 'a.toml'\n[variants.a]\nmatch_compute = 'a'\n").find("itself matches"),
            std::string::npos);
}

TEST(ConfigHash, LeavesOutWhatChangesNoResult) {
  const auto node = [](const std::string& corpus, std::int64_t threads, std::int64_t steps) {
    ConfigNode out;
    out.set("data.corpus", ConfigNode(corpus));
    out.set("run.threads", ConfigNode(threads));
    out.set("train.steps", ConfigNode(steps));
    return out;
  };
  const std::string hash = config_hash(node("a", 1, 5), "abc");
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_EQ(config_hash(node("b", 2, 5), "abc"), hash);
  EXPECT_NE(config_hash(node("a", 1, 6), "abc"), hash);
  EXPECT_NE(config_hash(node("a", 1, 5), "abd"), hash);
}

/// The hash of a recipe as the trainer completes it.
std::string hash_of(const std::string& text) {
  return config_hash(write_config(read_recipe(parse_toml(text, "r.toml"))), "abc");
}

constexpr const char* kRouted = "[model.moe]\nexperts = 8\n[model.router]\nmethod = \"remoe\"\n";

TEST(ConfigHash, SaysNothingOfDefaults) {
  // By hand: no key but these differs from its default; a key that appears tomorrow changes
  // nothing. Each is what read_recipe makes of what was left open.
  const std::string text = std::string(kRouted) + "[data]\ncorpus = \"c\"\n[train]\nlr = 1e-3\n";
  EXPECT_EQ(hash_of(text), fmt::format("{:016x}", fnv1a("data.corpus = #abc\n"
                                                        "model.context = 256\n"
                                                        "model.d_ffn = 1024\n"
                                                        "model.head_dim = 32\n"
                                                        "model.kv_heads = 8\n"
                                                        "model.moe.experts = 8\n"
                                                        "model.router.method = \"remoe\"\n"
                                                        "train.lr = 0.001\n"
                                                        "train.micro_batch = 16\n"
                                                        "train.min_lr = 1e-04\n"
                                                        "train.warmup_steps = 10\n")));
  EXPECT_EQ(hash_of(text + "beta1 = 0.9\n"), hash_of(text));
  EXPECT_NE(hash_of(text + "beta1 = 0.8\n"), hash_of(text));
}

TEST(ConfigHash, ComparesPartsWithWhatTheMethodGivesThem) {
  const std::string option = "[model.router.adaptive-l1]\nfactor = ";
  EXPECT_EQ(hash_of(kRouted + option + "1.2\n"), hash_of(kRouted));
  EXPECT_NE(hash_of(kRouted + option + "1.3\n"), hash_of(kRouted));
}

TEST(ConfigHash, CountsWhatAResultDependsOn) {
  const auto with = [](const std::string& line) { return hash_of(kRouted + ("[train]\n" + line)); };
  for (const char* line :
       {"recompute_experts = true", "checkpoint_every = 7", "keep_last = 5", "keep_best = false"})
    EXPECT_EQ(with(line), hash_of(kRouted)) << line;
  for (const char* line : {"seed = 1", "steps = 2", "eval_every = 3", "final_eval_tokens = 4"})
    EXPECT_NE(with(line), hash_of(kRouted)) << line;
}

TEST(ConfigHash, IsFnv1a) {
  // From the algorithm's authors' test vectors.
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8ULL);
}

}  // namespace
}  // namespace penstock::study
