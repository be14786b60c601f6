// The key `pairs` of study files.
#include "penstock/study/config/chosen_pairs.h"

#include <gtest/gtest.h>

#include "penstock/study/config/study_config.h"
#include "tests/base/error_of.h"
#include "tests/study/fixture.h"

namespace penstock::study {
namespace {

using Pairs = std::vector<ChosenPair>;

struct ChosenPairs : ::testing::Test {
  testing::TemporaryDirectory folder;
  void SetUp() override { testing::write_text(folder.path("a.toml"), "[train]\nsteps = 1\n"); }
  /// A study of the variants a, b and cat, with `head` before them.
  void write(const std::string& head, const std::string& name = "s.toml") {
    testing::write_text(folder.path(name), "base = 'a.toml'\n" + head +
                                               "\n[variants.a]\n[variants.b]\n[variants.cat]\n");
  }
  StudyConfig read(const std::string& scale = "", const std::string& name = "s.toml") {
    return read_study(folder.path(name), {}, scale);
  }
  std::string error(const std::string& head) {
    write(head);
    return penstock::testing::error_of([&] { read(); });
  }
};

TEST_F(ChosenPairs, AreReadInTheFilesOrder) {
  write("");
  EXPECT_TRUE(read().comparison.pairs.empty());
  write("pairs = [['cat', 'a'], ['a', 'b']]");
  EXPECT_EQ(read().comparison.pairs, (Pairs{{"cat", "a"}, {"a", "b"}}));
}

TEST_F(ChosenPairs, OfVariantsThatAScaleLeavesOutAreLeftOut) {
  const std::string pairs = "pairs = [['cat', 'a'], ['a', 'b']]\n";
  write(pairs + "[scale.desk]\nonly = ['b', 'a']\n[scale.paper]");
  EXPECT_EQ(read("desk").comparison.pairs, (Pairs{{"a", "b"}}));
  EXPECT_EQ(read("paper").comparison.pairs, (Pairs{{"cat", "a"}, {"a", "b"}}));
  // A name that is no variant at any scale is an error all the same.
  penstock::testing::expect_says(error("only = ['a', 'b']\npairs = [['cut', 'a']]"),
                                 {"'cut', which is not a variant"});
}

TEST_F(ChosenPairs, AreThoseOfTheStudyThatThisOneIsLikeUnlessItHasItsOwn) {
  write("pairs = [['cat', 'a'], ['a', 'b']]");
  testing::write_text(folder.path("like.toml"), "like = 's.toml'\nonly = ['a', 'b']\n");
  EXPECT_EQ(read("", "like.toml").comparison.pairs, (Pairs{{"a", "b"}}));
  testing::write_text(folder.path("like.toml"), "like = 's.toml'\npairs = [['b', 'cat']]\n");
  EXPECT_EQ(read("", "like.toml").comparison.pairs, (Pairs{{"b", "cat"}}));
}

TEST_F(ChosenPairs, ThatAreWrongAreNamedWithFileAndLine) {
  const auto expect = [&](const std::string& head, std::initializer_list<std::string_view> parts) {
    penstock::testing::expect_says(error(head), parts);
  };
  expect("pairs = [['a', 'cats']]",
         {"s.toml:2: pairs names 'cats', which is not a variant", "did you mean 'cat'?"});
  expect("pairs = [\n['a', 'b'],\n['b', 'b'],\n]",
         {"s.toml:4: pairs has [\"b\", \"b\"], with 'b' twice"});
  expect("pairs = [\n['a', 'b'],\n['a', 'cat'],\n['a', 'b'],\n]",
         {"s.toml:5: pairs has [\"a\", \"b\"] after [\"a\", \"b\"]", "the same pair"});
  expect("pairs = [['a', 'b'], ['b', 'a']]",
         {"s.toml:2: pairs has [\"b\", \"a\"] after [\"a\", \"b\"]", "the same pair"});
  expect("pairs = [['a', 'b', 'cat']]", {"s.toml:2: pairs has a list of 3 names"});
  expect("pairs = [['a']]", {"s.toml:2: pairs has a list of 1 name; "});
  expect("pairs = [[]]", {"s.toml:2: pairs has a list of 0 names; "});
  expect("pairs = ['a', 'b']", {"s.toml:2: pairs: expected an array or a table, found a string"});
  expect("pairs = [['a', 1]]", {"s.toml:2: pairs: expected a string, found an integer"});
}

TEST_F(ChosenPairs, MayBeOfGroups) {
  write("pairs = [{label = 'one', first = ['a', 'b'], second = ['cat']}, ['a', 'b']]");
  EXPECT_EQ(read().comparison.pairs, (Pairs{{{"a", "b"}, "cat", "one"}, {"a", "b"}}));
  write("only = ['a', 'b']\npairs = [{first = ['a', 'b'], second = ['cat']}, ['a', 'b']]");
  EXPECT_EQ(read().comparison.pairs, (Pairs{{"a", "b"}}));
  testing::write_text(folder.path("s.toml"),
                      "base = 'a.toml'\n[[pairs]]\nfirst = ['a']\nsecond = ['b']\n"
                      "[variants.a]\n[variants.b]\n");
  EXPECT_EQ(read().comparison.pairs, (Pairs{{"a", "b"}}));
}

TEST_F(ChosenPairs, OfWrongGroupsAreNamedWithFileAndLine) {
  const auto expect = [&](const std::string& pair, std::initializer_list<std::string_view> parts) {
    penstock::testing::expect_says(error("pairs = [\n['a', 'b'],\n" + pair + ",\n]"), parts);
  };
  expect("{first = ['a', 'cats'], second = ['b']}",
         {"s.toml:4: pairs names 'cats', which is not a variant", "did you mean 'cat'?"});
  expect("{first = [], second = ['b']}", {"s.toml:4: pairs.first has no variants"});
  expect("{first = ['b']}", {"s.toml:4: pairs.second has no variants"});
  expect("{first = ['a', 'cat'], second = ['b', 'cat']}",
         {"s.toml:4: pairs has {first = [\"a\", \"cat\"], second = [\"b\", \"cat\"]}, with 'cat' "
          "twice"});
  expect("{first = ['a', 'a'], second = ['b']}", {"s.toml:4: pairs has ", "with 'a' twice"});
  expect("{first = ['b'], second = ['a']}",
         {"s.toml:4: pairs has [\"b\", \"a\"] after [\"a\", \"b\"]", "the same pair"});
  expect("{first = ['b', 'a'], second = ['cat']},\n{first = ['cat'], second = ['a', 'b']}",
         {"s.toml:5: pairs has ", "the same pair"});
  expect("{first = 'a', second = ['b']}", {"s.toml:4: pairs.first: expected an array"});
  expect("{first = ['a'], seconds = ['b']}",
         {"s.toml:4: pairs.seconds: unknown key; did you mean 'second'?"});
  expect("[['a', 'b'], 'cat']", {"s.toml:4: pairs: expected a string, found an array",
                                 "write groups as {first = [...], second = [...]}"});
}

TEST_F(ChosenPairs, OfAStudyWithoutVariantsAreRefused) {
  testing::write_text(folder.path("s.toml"), "report = ['settings']\npairs = [['a', 'b']]\n");
  penstock::testing::expect_error([&] { read(); }, {"s.toml:2: pairs names 'a'"});
}

}  // namespace
}  // namespace penstock::study
