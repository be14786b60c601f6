// Study files: overrides, order, and errors that name file and line.
#include "penstock/study/config/study_config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "penstock/io/toml.h"
#include "penstock/study/config/config_hash.h"
#include "penstock/train/read_recipe.h"
#include "tests/base/error_of.h"
#include "tests/study/fixture.h"

namespace penstock::study {
namespace {

using testing::TemporaryDirectory;
using testing::write_text;

/// The values of k at which the study measures a model of 16 experts.
std::vector<std::int64_t> asked_ks(const StudyConfig& study) {
  FinishedRun run;
  run.model.router.method = "topk";
  run.model.moe.experts = 16;
  for (const auto& one : study.measurements)
    if (one->name() == "by_k")
      for (const Work& work : one->missing(run, {}))
        return work.asked["k"].get<std::vector<std::int64_t>>();
  return {};
}

std::string value(const Variant& variant, const std::string& key) {
  return flatten(variant.recipe).at(key);
}

std::string error_of(const std::string& text) {
  TemporaryDirectory folder;
  write_text(folder.path("a.toml"), "[train]\nsteps = 1\n");
  write_text(folder.path("s.toml"), text);
  return penstock::testing::error_or("", [&] { read_study(folder.path("s.toml")); });
}

TEST(StudyConfig, AVariantMayChangeCoefficientsOfTheModelThatItBeginsWith) {
  TemporaryDirectory folder;
  write_text(folder.path("a.toml"), "[model]\nd_model = 8\n[train]\nsteps = 1\n");
  write_text(folder.path("s.toml"),
             "base = 'a.toml'\n[scale.desk.variants.b]\n"
             "set = {'model.router.load-balance.coefficient' = 0.5}\n"
             "[variants.a]\nset = {'model.d_model' = 16}\n"
             "[variants.b]\nfrom = 'a'\nset = {'model.router.z-loss.coefficient' = 0}\n");
  const StudyConfig study = read_study(folder.path("s.toml"));
  EXPECT_TRUE(study.variants[0].retuned.empty());
  EXPECT_EQ(flatten(study.variants[1].retuned),
            (std::map<std::string, std::string>{{"router.load-balance.coefficient", "0.5"},
                                                {"router.z-loss.coefficient", "0"}}));
  const std::string head = "base = 'a.toml'\n[variants.a]\n[variants.b]\nfrom = 'a'\n";
  for (const std::string key : {"model.d_model", "model.router.k", "model.router.z-loss.scope",
                                "model.router.no-part.coefficient"}) {
    const std::string error = error_of(head + "set = {'" + key + "' = 2}\n");
    penstock::testing::expect_says(error, {"s.toml:5: ", key, "only coefficients"});
  }
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
  penstock::testing::expect_says(error_of("base = 'a.toml'\nsedes = [1]\n[variants.a]\n"),
                                 {"s.toml:2: sedes"});
  const std::string in_variant = error_of("base = 'a.toml'\n[variants.a]\nlable = 'x'\n");
  penstock::testing::expect_says(in_variant, {"s.toml:3: variants.a.lable", "'label'"});
  penstock::testing::expect_says(
      error_of("base = 'a.toml'\n[variants.a]\n[variants.a.sett]\nx = 1\n"), {"'set'"});
  penstock::testing::expect_says(error_of("base = 'a.toml'\n[variant.a]\n"), {"'variants'"});
}

TEST(StudyConfig, RefusesWhatCannotBeRun) {
  penstock::testing::expect_says(error_of("[variants.a]\n"), {"has no recipe"});
  penstock::testing::expect_says(error_of("base = 'a.toml'\n"), {"at least one [variants.NAME]"});
  penstock::testing::expect_says(error_of("base = 'none.toml'\n[variants.a]\n"), {"none.toml"});
  penstock::testing::expect_says(error_of("base = 'a.toml'\nseeds = [3, -1]\n[variants.a]\n"),
                                 {"seeds has -1"});
  penstock::testing::expect_says(error_of("base = 'a.toml'\nseeds = [1, 1]\n[variants.a]\n"),
                                 {"same seed twice"});
  penstock::testing::expect_says(error_of("base = 'a.toml'\n[variants.'../x']\n"),
                                 {"names a folder"});
  penstock::testing::expect_says(error_of("base = 'a.toml'\n[variants.a]\nmatch_compute = 'b'\n"),
                                 {"'b'"});
  penstock::testing::expect_says(error_of("base = 'a.toml'\n[variants.a]\nmatch_compute = 'a'\n"),
                                 {"itself matches"});
}

std::string published_error(const std::string& published) {
  return error_of("base = 'a.toml'\n[variants.a]\npublished = {" + published + "}\n");
}

TEST(StudyConfig, ReadsHowToCompare) {
  TemporaryDirectory folder;
  write_text(folder.path("a.toml"), "[train]\nsteps = 1\n");
  const std::string variants =
      "[variants.b]\n[variants.a]\npublished = {k1 = 1.48, k16 = 2}\n[variants.d]\n"
      "published = {all = 1.2}\n";
  write_text(folder.path("s.toml"),
             "base = 'a.toml'\neval_k = [1, 16]\neval_checkpoint = 'best'\nreference = 'a'\n"
             "measure = 'perplexity'\nbaseline = {name = '5-gram', bits_per_byte = 2.5}\n" +
                 variants);
  const StudyConfig study = read_study(folder.path("s.toml"));
  EXPECT_EQ(asked_ks(study), (std::vector<std::int64_t>{1, 16}));
  EXPECT_EQ(study.eval_checkpoint, RunCheckpoint::best);
  EXPECT_EQ(study.comparison.reference, "a");
  EXPECT_EQ(study.comparison.measure, Quality::perplexity);
  EXPECT_EQ(study.comparison.baseline.name, "5-gram");
  EXPECT_EQ(study.comparison.baseline.bits_per_byte, 2.5);
  EXPECT_EQ(study.comparison.published.at("a"),
            (std::map<std::string, double>{{"k1", 1.48}, {"k16", 2}}));
  EXPECT_EQ(study.comparison.published.at("d"), (std::map<std::string, double>{{"all", 1.2}}));
  EXPECT_FALSE(study.comparison.published.contains("b"));

  write_text(folder.path("plain.toml"), "base = 'a.toml'\n" + variants);
  const StudyConfig plain = read_study(folder.path("plain.toml"));
  EXPECT_TRUE(asked_ks(plain).empty());
  EXPECT_EQ(plain.eval_checkpoint, RunCheckpoint::final);
  EXPECT_EQ(plain.comparison.reference, "b");  // the first
  EXPECT_EQ(plain.comparison.baseline.bits_per_byte, 0);

  penstock::testing::expect_says(error_of("base = 'a.toml'\nreference = 'aa'\n[variants.a]\n"),
                                 {"mean 'a'"});
  penstock::testing::expect_says(error_of("base = 'a.toml'\neval_k = [2, 2]\n[variants.a]\n"),
                                 {"twice"});
  EXPECT_NE(error_of("base = 'a.toml'\neval_k = [0]\n[variants.a]\n"), "");
  EXPECT_NE(error_of("base = 'a.toml'\nmeasure = 'nats'\n[variants.a]\n"), "");
  penstock::testing::expect_says(
      published_error("m1 = 2.0"),
      {"s.toml:3", "k1", "report = [\"settings\"]", "batch_sequences", "published_as"});
  penstock::testing::expect_says(published_error("k1 = 'low'"), {"number"});
}

struct StudyScales : ::testing::Test {
  TemporaryDirectory folder;
  void SetUp() override {
    write_text(folder.path("a.toml"), "[train]\nsteps = 1\nlr = 1.0\nseed = 1\n");
    write_text(folder.path("s.toml"),
               "base = 'a.toml'\nseeds = [7]\neval_k = [1, 16]\nclaim = 'whatever'\n"
               "set = {'train.lr' = 2.0, 'train.warmup_steps' = 2}\n"
               "baseline = {bits_per_byte = 2.5}\n"
               "[scale.paper]\nset = {'train.steps' = 400}\n"
               "[scale.desk]\nseeds = [1, 2]\nclaim = 'small'\neval_k = [1]\n"
               "baseline = {name = 'desk', bits_per_byte = 3.5}\n"
               "set = {'train.steps' = 4, 'train.lr' = 3.0}\n"
               "[scale.desk.variants.own]\nset = {'train.warmup_steps' = 9}\n"
               "[variants.plain]\n[variants.own]\n"
               "set = {'train.lr' = 4.0, 'train.warmup_steps' = 5}\n");
  }
  StudyConfig read(const std::string& scale, const std::vector<std::string>& overrides = {}) {
    return read_study(folder.path("s.toml"), overrides, scale);
  }
  std::string error(const std::string& scale) {
    return penstock::testing::error_or("", [&] { read(scale); });
  }
};

TEST_F(StudyScales, LaysTheScaleBetweenStudyAndVariant) {
  const StudyConfig desk = read("desk"), paper = read("paper");
  EXPECT_EQ(value(desk.variants[0], "train.steps"), "4");
  EXPECT_EQ(value(desk.variants[0], "train.lr"), "3.0");
  EXPECT_EQ(value(desk.variants[0], "train.warmup_steps"), "2");
  // The variant's own key overrides the scale's.
  EXPECT_EQ(value(desk.variants[1], "train.lr"), "4.0");
  // The scale's key for this variant overrides it.
  EXPECT_EQ(value(desk.variants[1], "train.warmup_steps"), "9");
  EXPECT_EQ(value(paper.variants[0], "train.steps"), "400");
  EXPECT_EQ(value(paper.variants[0], "train.lr"), "2.0");
  EXPECT_EQ(value(paper.variants[1], "train.warmup_steps"), "5");
  EXPECT_EQ(value(read("desk", {"train.steps=6"}).variants[0], "train.steps"), "6");
}

TEST_F(StudyScales, MayHaveABaseThatStandsInForAllRecipes) {
  write_text(folder.path("b.toml"), "[train]\nsteps = 3\nlr = 9.0\nseed = 1\n");
  write_text(folder.path("s.toml"),
             "base = 'a.toml'\n[variants.plain]\n[variants.own]\nrecipe = 'a.toml'\n"
             "set = {'train.steps' = 5}\n[scale.desk]\nbase = 'b.toml'\n[scale.paper]\n");
  const StudyConfig desk = read("desk"), paper = read("paper");
  for (const Variant& variant : desk.variants) EXPECT_EQ(value(variant, "train.lr"), "9.0");
  for (const Variant& variant : paper.variants) EXPECT_EQ(value(variant, "train.lr"), "1.0");
  EXPECT_EQ(value(desk.variants[0], "train.steps"), "3");
  EXPECT_EQ(value(desk.variants[1], "train.steps"), "5");
}

TEST(HyperRouterStudies, ReadAtBothScales) {
  const std::string folder = std::string(PENSTOCK_SOURCE_DIR) + "/recipes/hyperrouter/";
  for (const std::string name : {"tableA1", "tableA2", "tableA3", "tableA4"})
    for (const std::string scale : {"desk", "paper"})
      EXPECT_FALSE(read_study(folder + name + ".toml", {}, scale).trains()) << name;
  for (const std::string name :
       {"table1", "table2", "table3", "table4", "tableA5", "figure1", "figure4", "choices"})
    for (const std::string scale : {"desk", "paper"}) {
      const StudyConfig study = read_study(folder + name + ".toml", {}, scale);
      EXPECT_FALSE(study.variants.empty()) << name;
      for (const Variant& variant : study.variants) {
        const auto recipe = read_recipe(variant.recipe);
        EXPECT_EQ(recipe.model.d_model, scale == "desk" ? 128 : 256) << name << variant.name;
        // The experts' widths sum to a dense layer's width.
        const ModelConfig& model = recipe.model;
        EXPECT_EQ(model.d_ffn * std::max<std::int64_t>(1, model.moe.experts),
                  scale == "desk" ? 1024 : 8192)
            << name << variant.name;
      }
    }
}

/// Of the recipe's file it is taken as the seed of runs outside of a study.
TEST(StudyConfig, RefusesASeedThatTheStudysSeedsWouldOverride) {
  const std::string wrong = "s.toml:2: train.seed: ", seed = "set = {\"train.seed\" = 5}\n";
  const std::string base = "base = 'a.toml'\n";
  for (const std::string& text :
       {base + seed + "[variants.a]\n", base + "[set.train]\nseed = 5\n[variants.a]\n",
        base + "[variants.a]\n" + seed, base + "[scale.desk]\n" + seed + "[variants.a]\n"})
    penstock::testing::expect_says(
        error_of(text), {"train.seed: a study trains with the seeds", "name them there"});
  penstock::testing::expect_says(error_of(base + seed + "[variants.a]\n"), {wrong});
  TemporaryDirectory folder;
  write_text(folder.path("a.toml"), "[train]\nsteps = 1\nseed = 9\n");
  write_text(folder.path("s.toml"), "base = 'a.toml'\n[variants.a]\n");
  read_study(folder.path("s.toml"));
  const std::vector<std::string> asked = {"train.seed=5"};
  EXPECT_EQ(penstock::testing::error_of([&] { read_study(folder.path("s.toml"), asked); }),
            "train.seed=5: train.seed: a study trains with the seeds of its key seeds; name them "
            "there");
}

TEST(StudyConfig, SaysThatAnotherKeyLeavesANeededVariantOut) {
  const std::string study =
      "base = 'a.toml'\nonly = ['b']\n[variants.a]\n[variants.b]\n[scale.desk]\n";
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string text = study;
    return error_of(text.replace(text.find(from), from.size(), to));
  };
  EXPECT_EQ(error_of(study), "");
  for (const std::string& key : {std::string("match_compute"), std::string("from")})
    penstock::testing::expect_says(error("[variants.b]\n", "[variants.b]\n" + key + " = 'a'\n"),
                                   {"variants.b." + key, "'a', which this study leaves out"});
  penstock::testing::expect_says(error("only", "reference = 'a'\nonly"),
                                 {"s.toml: reference names 'a', which this study leaves out"});
  penstock::testing::expect_says(error("only", "reference = 'c'\nonly"),
                                 {"'c', which is not a variant"});
}

TEST_F(StudyScales, SaysWhatElseDiffers) {
  const StudyConfig desk = read(""), paper = read("paper");
  EXPECT_EQ(desk.scale, "desk");
  EXPECT_EQ(desk.claim, "small");
  EXPECT_EQ(desk.seeds, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(asked_ks(desk), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(desk.comparison.baseline.bits_per_byte, 3.5);
  EXPECT_EQ(paper.scale, "paper");
  EXPECT_EQ(paper.claim, "whatever");
  EXPECT_EQ(paper.seeds, (std::vector<std::int64_t>{7}));
  EXPECT_EQ(asked_ks(paper), (std::vector<std::int64_t>{1, 16}));
  EXPECT_EQ(paper.comparison.baseline.bits_per_byte, 2.5);
}

TEST_F(StudyScales, RefusesWhatIsNotThere) {
  penstock::testing::expect_says(error("table"),
                                 {"no scale 'table'; choose as options.scale from: desk, paper"});
  write_text(folder.path("s.toml"), "base = 'a.toml'\n[variants.a]\n");
  EXPECT_EQ(error(""), "");
  EXPECT_EQ(read("").scale, "");
  penstock::testing::expect_says(error("desk"), {"one scale only"});
  write_text(folder.path("s.toml"), "base = 'a.toml'\n[scale.paper]\n[variants.a]\n");
  penstock::testing::expect_says(error(""), {"from: paper"});
  const std::string desk = "base = 'a.toml'\n[variants.a]\n[scale.desk]\n";
  write_text(folder.path("s.toml"), desk + "sedes = [1]\n");
  penstock::testing::expect_says(error(""), {"s.toml:4: scale.desk.sedes"});
  write_text(folder.path("s.toml"), desk + "[scale.desk.variants.b]\nset = {x = 1}\n");
  penstock::testing::expect_says(error(""), {"'b', which is not a variant"});
}

TEST(ConfigHash, LeavesOutWhatChangesNoResult) {
  const auto node = [](const std::string& corpus, std::int64_t threads, std::int64_t steps) {
    ConfigNode out;
    out.set("data.corpus", corpus);
    out.set("run.threads", threads);
    out.set("train.steps", steps);
    return out;
  };
  const std::string hash = config_hash(node("a", 1, 5), "abc");
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_EQ(config_hash(node("b", 2, 5), "abc"), hash);
  EXPECT_NE(config_hash(node("a", 1, 6), "abc"), hash);
  EXPECT_NE(config_hash(node("a", 1, 5), "abd"), hash);
}

/// The hash of a recipe after the trainer has completed it.
std::string hash_of(const std::string& text) {
  return config_hash(write_config(read_recipe(parse_toml(text, "r.toml"))), "abc");
}

constexpr const char* kRouted = "[model.moe]\nexperts = 8\n[model.router]\nmethod = \"remoe\"\n";

TEST(ConfigHash, SaysNothingOfDefaults) {
  // Written by hand: only these keys differ from their defaults, or were completed by read_recipe.
  // A future key with a default must not change the hash.
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
  for (const char* line : {"recompute_experts = true", "memory_budget = \"2 GiB\"",
                           "checkpoint_every = 7", "keep_last = 5", "keep_best = false"})
    EXPECT_EQ(with(line), hash_of(kRouted)) << line;
  for (const char* line : {"seed = 1", "steps = 2", "eval_every = 3", "final_eval_tokens = 4"})
    EXPECT_NE(with(line), hash_of(kRouted)) << line;
}

TEST(ConfigHash, IsFnv1a) {
  // The test vectors of the algorithm's authors.
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8ULL);
}

}  // namespace
}  // namespace penstock::study
