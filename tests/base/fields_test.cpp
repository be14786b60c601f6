// Config fields as a recipe uses them: types, ranges, unknown keys with the nearest known key, and
// the place where a value was set, as errors name it.
#include "penstock/base/fields.h"

#include <gtest/gtest.h>

#include <cmath>

#include "penstock/base/config_origin.h"
#include "penstock/base/number_text.h"
#include "tests/base/error_of.h"

namespace penstock {
namespace {

enum class Pace { slow, quick };
constexpr std::array<std::string_view, 2> words(Pace) { return {"slow", "quick"}; }

struct Settings {
  std::int64_t steps = 10;
  double eps = 1e-8;
  std::string kind = "plain";
  std::vector<std::int64_t> values;
  bool fast = false;
  Pace pace = Pace::slow;
  std::optional<Pace> perhaps;
  std::vector<Pace> paces;
  bool biased = true;
  ConfigNode table;
  template <class V>
  void visit(V& v) {
    v("steps", steps, {.help = "steps", .min = 1, .max = 100});
    v("eps", eps, {.help = "epsilon", .min = 0});
    v("kind", kind, {.help = "kind", .choices = {"plain", "fancy"}});
    v("values", values);
    v("fast", fast);
    v("pace", pace, {.help = "of the whole"});
    v("perhaps", perhaps);
    v("paces", paces);
    v("biased", biased, {.words = {"drop", "keep"}, .option = "bias"});
    v("table", table, {.help = "laid over something"});
  }
};

std::string refusal(const std::string& key, const ConfigNode::Value& value) {
  const ConfigNode entry(value, "r.toml:7");
  ConfigNode node;
  node.set(key, entry);
  return testing::error_or("accepted", [&] { read_config<Settings>(node, "train"); });
}

TEST(NearestName, CountsExchangedNeighboursAsOneEdit) {
  const std::vector<std::string> keys = {"eps", "lr", "seed", "steps"};
  EXPECT_EQ(nearest_name("setps", keys), "steps");  // two substitutions: as far as "eps"
  EXPECT_EQ(nearest_name("sede", keys), "seed");
  EXPECT_EQ(nearest_name("rl", keys), "lr");
  EXPECT_EQ(nearest_name("stepss", keys), "steps");
  EXPECT_EQ(nearest_name("step", keys), "steps");
  EXPECT_EQ(nearest_name("granularity", keys), "");
  EXPECT_EQ(nearest_name("", {}), "");
  const std::vector<std::string> longer = {"batch_sequences", "beta1", "sequence_length"};
  EXPECT_EQ(nearest_name("batch", longer),
            "batch_sequences");  // though "beta1" is three edits away
  EXPECT_EQ(nearest_name("batch_size", longer), "batch_sequences");
  EXPECT_EQ(nearest_name("bata1", longer), "beta1");
  EXPECT_EQ(nearest_name("eval_token_count", {"eval_every", "eval_tokens"}), "eval_tokens");
}

TEST(Fields, RefuseWhatDoesNotFitAndSayWhere) {
  EXPECT_EQ(refusal("steps", std::int64_t{3}), "accepted");
  EXPECT_EQ(refusal("steps", 3.0), "r.toml:7: train.steps: expected an integer, found a number");
  EXPECT_EQ(refusal("steps", std::int64_t{101}),
            "r.toml:7: train.steps = 101 is out of range; it must be 1 to 100");
  EXPECT_EQ(refusal("eps", -1.0), "r.toml:7: train.eps = -1 is out of range; it must be >= 0");
  EXPECT_EQ(refusal("eps", std::int64_t{2}), "accepted");  // an integer is a number
  EXPECT_EQ(refusal("eps", NAN), "r.toml:7: train.eps = nan is not a finite number");
  EXPECT_EQ(refusal("kind", std::string("fany")),
            "r.toml:7: train.kind = 'fany' is not one of: plain | fancy");
  EXPECT_EQ(refusal("fast", std::int64_t{1}),
            "r.toml:7: train.fast: expected true or false, found an integer");
  EXPECT_EQ(refusal("values", std::int64_t{1}),
            "r.toml:7: train.values: expected an array, found an integer");
  EXPECT_EQ(refusal("pace", std::string("quick")), "accepted");
  EXPECT_EQ(refusal("pace", std::string("quik")),
            "r.toml:7: train.pace = 'quik' is not one of: slow | quick");
  EXPECT_EQ(refusal("pace", true), "r.toml:7: train.pace: expected a string, found true or false");
  EXPECT_EQ(refusal("biased", false), "accepted");
  EXPECT_EQ(refusal("biased", std::string("drop")), "accepted");
  EXPECT_EQ(refusal("biased", std::string("dorp")),
            "r.toml:7: train.biased = 'dorp' is not one of: drop | keep");
  EXPECT_EQ(refusal("table", std::int64_t{1}),
            "r.toml:7: train.table: expected a table, found an integer");
  EXPECT_EQ(refusal("setps", std::int64_t{1}),
            "r.toml:7: train.setps: unknown key; did you mean 'steps'?");
}

struct Inner {
  std::int64_t count = 0;
  template <class V>
  void visit(V& v) {
    v("count", count);
  }
};
struct Outer {
  Inner inner;
  std::vector<Inner> list;
  template <class V>
  void visit(V& v) {
    v("inner", inner);
    v("list", list);
  }
};

TEST(Fields, AStructThatIsNoTableIsNamed) {
  const auto refusal = [](const std::string& key, ConfigNode value) {
    ConfigNode node;
    node.set(key, std::move(value));
    return testing::error_or("accepted", [&] { read_config<Outer>(node); });
  };
  const ConfigNode three(std::int64_t{3});
  EXPECT_EQ(refusal("inner", three), "inner: expected a table, found an integer");
  EXPECT_EQ(refusal("list", ConfigNode(ConfigNode::Array{three})),
            "list: expected a table, found an integer");
  ConfigNode node;
  node.set("inner", three);
  EXPECT_EQ(testing::error_of([&] { node.set("inner.count", three); }),
            "'count' is below a value that is not a table (an integer)");
}

TEST(Fields, AnotherWordIsNoMisspelling) {
  const std::vector<std::string> names{"name", "label", "train", "batch_sequences", "moments"};
  for (const char* const word : {"base", "model", "variants", "data", "dropouts"})
    EXPECT_EQ(nearest_name(word, names), "") << word;
  EXPECT_EQ(nearest_name("tain", names), "train");
  EXPECT_EQ(nearest_name("lable", names), "label");
  EXPECT_EQ(nearest_name("momnets", names), "moments");
  EXPECT_EQ(nearest_name("batch", names), "batch_sequences");
  EXPECT_EQ(nearest_name("batch_rows", names), "batch_sequences");
}

TEST(Numbers, AreWrittenWhole) {
  EXPECT_EQ(number_text(1048577), "1048577");
  EXPECT_EQ(number_text(-3), "-3");
  EXPECT_EQ(number_text(0.25), "0.25");
  EXPECT_EQ(number_text(1e-8), "1e-08");
  EXPECT_EQ(number_text(1e300), "1e+300");
  EXPECT_EQ(size_text(3.5 * (1 << 30)), "3.5 GiB");
  EXPECT_EQ(size_text(512 << 20), "512 MiB");
}

TEST(Fields, WrittenConfigReadsBack) {
  Settings settings{.steps = 7,
                    .eps = 0.1,
                    .kind = "fancy",
                    .values = {1, 2},
                    .fast = true,
                    .pace = Pace::quick,
                    .perhaps = Pace::quick,
                    .paces = {Pace::quick, Pace::slow}};
  const Settings back = read_config<Settings>(write_config(settings));
  EXPECT_EQ(back.steps, 7);
  EXPECT_EQ(back.eps, 0.1);
  EXPECT_EQ(back.kind, "fancy");
  EXPECT_EQ(back.values, (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(back.fast);
  EXPECT_EQ(back.pace, Pace::quick);
  EXPECT_EQ(back.perhaps, Pace::quick);
  EXPECT_EQ(back.paces, (std::vector<Pace>{Pace::quick, Pace::slow}));
  EXPECT_EQ(to_toml(write_config(Settings{.pace = Pace::quick})),
            "biased = true\neps = 1e-08\nfast = false\nkind = \"plain\"\npace = \"quick\"\npaces = "
            "[]\nsteps = "
            "10\nvalues = []\n");
}

TEST(Fields, ABoolMayHaveWordsAndATableIsTakenAsItIs) {
  ConfigNode node;
  node.set("biased", "drop");
  node.set("table.a.b", 3);
  const auto settings = read_config<Settings>(node);
  EXPECT_FALSE(settings.biased);
  EXPECT_EQ(to_toml(settings.table), "[a]\nb = 3\n");
  const auto again = read_config<Settings>(write_config(settings));
  EXPECT_FALSE(again.biased);
  EXPECT_EQ(to_toml(again.table), "[a]\nb = 3\n");
}

/// The description of one of the settings.
FieldDescription description_of(const std::string& path) {
  for (const FieldDescription& field : describe_config<Settings>())
    if (field.path == path) return field;
  ADD_FAILURE() << path << " is not described";
  return {};
}

TEST(Fields, AreDescribedByTypeRangeAndWords) {
  EXPECT_EQ(description_of("steps").min, 1);
  EXPECT_EQ(description_of("steps").max, 100);
  EXPECT_EQ(description_of("kind").words, (std::vector<std::string>{"plain", "fancy"}));
  EXPECT_EQ(description_of("kind").range, "plain | fancy");
  EXPECT_EQ(description_of("biased").option, "bias");
  EXPECT_EQ(description_of("biased").words, (std::vector<std::string>{"drop", "keep"}));
  EXPECT_EQ(description_of("biased").range, "drop | keep");
  EXPECT_EQ(description_of("table").type, "table");
  for (const char* path : {"pace", "perhaps", "paces"}) {
    EXPECT_EQ(description_of(path).range, "slow | quick") << path;
    EXPECT_EQ(description_of(path).type, std::string(path) == "paces" ? "array" : "string");
  }
}

TEST(WithOrigins, PutsTheFirstNamedKeysLineFirstAndTheOthersBehind) {
  ConfigNode root;
  root.set("model.router.k", ConfigNode(std::int64_t{9}, "r.toml:9"));
  root.set("model.moe.experts", ConfigNode(std::int64_t{8}, "--set model.moe.experts=8"));
  root.set("model.d_model", ConfigNode(std::int64_t{8}, "r.toml:2"));
  EXPECT_EQ(with_origins(root, "model.router.k = 9 is above model.moe.experts = 8"),
            "r.toml:9: model.router.k = 9 is above model.moe.experts = 8 (model.moe.experts: "
            "--set model.moe.experts=8)");
  // A key that was not set has no line. The line of the next named key comes first.
  EXPECT_EQ(with_origins(root, "model.heads = 3 does not divide model.d_model = 8."),
            "r.toml:2: model.heads = 3 does not divide model.d_model = 8.");
  // A part of a longer key is not a named key, and no line is given twice.
  EXPECT_EQ(with_origins(root, "model.router.kind, xmodel.d_model"),
            "model.router.kind, xmodel.d_model");
  EXPECT_EQ(with_origins(root, "r.toml:2: model.d_model = 8 is odd"),
            "r.toml:2: model.d_model = 8 is odd");
  EXPECT_EQ(with_origins(ConfigNode(), "model.d_model"), "model.d_model");
}

TEST(WithOrigins, SaysThePathOfAnOverrideOnce) {
  ConfigNode root;
  root.set("data.corpus", ConfigNode(std::string("a b"), "--set data.corpus=\"a b\""));
  root.set("train.init_from", ConfigNode(std::string("runs/a"), "--set train.init_from=runs/a"));
  root.set("train.device", ConfigNode(std::string("cuda"), "r.toml:3"));
  EXPECT_EQ(with_origins(root, "data.corpus = a b: there is no such folder"),
            "--set data.corpus=\"a b\": there is no such folder");
  EXPECT_EQ(with_origins(root, "train.init_from = runs/a is a run"),
            "--set train.init_from=runs/a is a run");
  // Another path than that of the override is said, and a file's line does not say the value.
  EXPECT_EQ(
      with_origins(root, "train.init_from = runs/a/checkpoints/step-9: is damaged"),
      "--set train.init_from=runs/a: train.init_from = runs/a/checkpoints/step-9: is damaged");
  EXPECT_EQ(with_origins(root, "train.device = cuda: there is none"),
            "r.toml:3: train.device = cuda: there is none");
}

}  // namespace
}  // namespace penstock
