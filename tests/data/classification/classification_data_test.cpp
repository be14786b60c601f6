#include "penstock/data/classification/classification_data.h"

#include <archive.h>

#include <algorithm>
#include <numeric>

#include "tests/data/packed_files.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;
using Texts = std::vector<std::string>;
using Labels = std::vector<int>;

long long sum(const Labels& labels) { return std::accumulate(labels.begin(), labels.end(), 0LL); }

class Classification : public ::testing::Test {
 protected:
  ClassificationData load(const std::string& name, std::string_view content) const {
    return load_classification(folder_.write(name, content));
  }
  void fails(const std::string& name, std::string_view content,
             std::initializer_list<std::string_view> parts) const {
    expect_says(error_of([&] { load(name, content); }), parts);
  }
  testing::TemporaryFolder folder_;
};

TEST_F(Classification, Sst2IsTsvWithAHeaderAndNoQuotes) {
  folder_.write("glue/train.tsv", "sentence\tlabel\nit 's \"fine\" \t1\r\nbad , bad\t0\n");
  folder_.write("glue/dev.tsv", "label\tsentence\n1\tlast line");
  const auto data = load_classification(folder_ / "glue");
  EXPECT_EQ(data.format, ClassificationFormat::kSst2);
  EXPECT_EQ(data.train.texts, (Texts{"it 's \"fine\" ", "bad , bad"}));
  EXPECT_EQ(data.train.labels, (Labels{1, 0}));
  EXPECT_EQ(data.train.class_names, (Texts{"negative", "positive"}));
  EXPECT_FALSE(data.validation);
  EXPECT_EQ(data.test->texts, Texts{"last line"});
  EXPECT_EQ(data.test->labels, Labels{1});
}

TEST_F(Classification, Sst2ErrorsNameFileAndLine) {
  fails("a.tsv", "index\tsentence\n0\tx\n", {"a.tsv:1", "no column 'label'"});
  fails("a.tsv", "", {"a.tsv:1", "no column"});
  fails("a.tsv", "sentence\tlabel\n", {"a.tsv", "no labelled texts"});
  fails("a.tsv", "sentence\tlabel\nx\t1\ny\n", {"a.tsv:3", "1 columns"});
  fails("a.tsv", "sentence\tlabel\nx\t1\n\nz\t0\n", {"a.tsv:3", "1 columns"});
  fails("a.tsv", "sentence\tlabel\nx\t2\n", {"a.tsv:2", "'2'", "0 to 1"});
  fails("a.tsv", "sentence\tlabel\nx\t\n", {"a.tsv:2", "label"});
  fails("a.tsv", "sentence\tlabel\n \t1\n", {"a.tsv:2", "empty"});
  fails("a.tsv", "sentence\tlabel\nx\xff\t1\n", {"a.tsv:2", "not UTF-8"});
}

TEST_F(Classification, Sst5TreesGiveTheRootsLabelAndTheLeaves) {
  folder_.write("sst/train.txt",
                "(3 (2 It) (4 (2 's) (3 (2 -LRB-) (4 good\\/fun))))\n"
                "(0 (2 no))\r\n"
                "(2 one)\n");
  folder_.write("sst/dev.txt", "4 plain text here\n");
  folder_.write("sst/test.txt", "( 1 ( 2 a ) ( 1 b ) )");
  const auto data = load_classification(folder_ / "sst");
  EXPECT_EQ(data.format, ClassificationFormat::kSst5);
  EXPECT_EQ(data.train.texts, (Texts{"It 's -LRB- good\\/fun", "no", "one"}));
  EXPECT_EQ(data.train.labels, (Labels{3, 0, 2}));
  EXPECT_EQ(data.validation->texts, Texts{"plain text here"});
  EXPECT_EQ(data.validation->labels, Labels{4});
  EXPECT_EQ(data.test->texts, Texts{"a b"});
  EXPECT_EQ(data.train.classes(), 5);
}

TEST_F(Classification, Sst5ErrorsNameFileAndLine) {
  fails("t.txt", "(1 (2 a))\n(3 (2 It)\n", {"t.txt:2", "is missing"});
  fails("t.txt", "(3 (2 It)))\n", {"t.txt:1", "too many", "column 11"});
  fails("t.txt", "(3 (2 It)) more\n", {"t.txt:1", "outside"});
  fails("t.txt", "(3 a) (2 b)\n", {"t.txt:1", "second tree"});
  fails("t.txt", "(5 a)\n", {"t.txt:1", "'5'", "0 to 4"});
  fails("t.txt", "(3 (x a))\n", {"t.txt:1", "'x'"});
  fails("t.txt", "(", {"t.txt:1", "label"});
  fails("t.txt", "(3 )\n", {"t.txt:1", "empty"});
  fails("t.txt", "alone\n", {"t.txt:1", "neither a tree"});
  fails("t.txt", "7 text\n", {"t.txt:1", "'7'"});
  // Trees nested 200,000 deep: the parser must not recurse.
  std::string deep;
  for (int i = 0; i < 200000; ++i) deep += "(2 ";
  fails("t.txt", deep, {"t.txt:1", "is missing"});
  EXPECT_EQ(load("t.txt", deep + "x" + std::string(200000, ')')).train.texts, Texts{"x"});
}

TEST_F(Classification, Banking77QuotesCommasAndNewlines) {
  folder_.write("bank/categories.json", R"(["zeta","alpha"])");
  folder_.write("bank/train.csv",
                "text,category\r\nplain,alpha\n\"a, \"\"b\"\"\nand c\",zeta\n\"\n x\",alpha\n");
  folder_.write("bank/test.csv", "category,text\nzeta,last");
  const auto data = load_classification(folder_ / "bank");
  EXPECT_EQ(data.format, ClassificationFormat::kBanking77);
  EXPECT_EQ(data.train.texts, (Texts{"plain", "a, \"b\"\nand c", "\n x"}));
  EXPECT_EQ(data.train.class_names, (Texts{"zeta", "alpha"}));
  EXPECT_EQ(data.train.labels, (Labels{1, 0, 1}));
  EXPECT_EQ(data.test->labels, Labels{0});
  // Without categories.json the class names are the training file's, sorted. A test file adds none.
  std::filesystem::remove(folder_ / "bank/categories.json");
  EXPECT_EQ(load_classification(folder_ / "bank").train.labels, (Labels{0, 1, 0}));
  folder_.write("bank/test.csv", "text,category\nx,alpha\ny,beta\n");
  expect_says(error_of([&] { load_classification(folder_ / "bank"); }),
              {"test.csv:3", "'beta'", "2 that are known"});
}

TEST_F(Classification, Banking77ErrorsNameFileAndLine) {
  fails("b.csv", "text,label\nx,y\n", {"b.csv:1", "no column 'category'"});
  fails("b.csv", "", {"b.csv:1", "no column"});
  fails("b.csv", "text,category\n\"two\nlines\",a\nx\n", {"b.csv:4", "1 columns"});
  fails("b.csv", "text,category\nx,a\n\"never\nclosed,a\n", {"b.csv:3", "never closed"});
  fails("b.csv", "text,category\n\"x\"y,a\n", {"b.csv:2", "closing quote"});
  fails("b.csv", "text,category\n\xc3,a\n", {"b.csv:2", "not UTF-8"});
  fails("b.csv", "text,category\nx,a\nfoo,\n", {"b.csv:3", "no category"});
  fails("b.csv", "text,category\nx,caf\xe9\n", {"b.csv:2", "not UTF-8"});
  for (const char* bad : {"[", "{}", "[]", "[1]", "[\"a\",\"a\"]"}) {
    folder_.write("categories.json", bad);
    fails("b.csv", "text,category\nx,a\n", {"categories.json"});
  }
}

/// Writes a compressed tar with these members, in this order.
void write_tar(const std::string& path,
               const std::vector<std::pair<std::string, std::string>>& members) {
  testing::pack(path, ARCHIVE_FORMAT_TAR_PAX_RESTRICTED, ARCHIVE_FILTER_GZIP, members);
}

TEST_F(Classification, ImdbFromArchiveAndFolderIsTheSame) {
  const std::vector<std::pair<std::string, std::string>> members = {
      {"aclImdb/README", "not a review"},
      {"aclImdb/train/pos/1_9.txt", "good"},
      {"aclImdb/train/unsup/0_0.txt", "unlabelled"},
      {"aclImdb/test/neg/3_1.txt", "tested"},
      {"aclImdb/train/neg/0_2.txt", "bad<br />bad"},
      {"aclImdb/train/pos/0_7.txt", "fine"},
      {"aclImdb/train/urls_pos.txt", "http://"},
      {"aclImdb/train/pos/deeper/0_7.txt", "elsewhere"}};
  write_tar(folder_ / "aclImdb_v1.tar.gz", members);
  for (const auto& [name, content] : members) folder_.write("unpacked/" + name, content);
  for (const auto& path :
       {folder_ / "aclImdb_v1.tar.gz", folder_ / "unpacked", folder_ / "unpacked/aclImdb"}) {
    const auto data = load_classification(path);
    EXPECT_EQ(data.format, ClassificationFormat::kImdb) << path;
    EXPECT_EQ(data.train.texts, (Texts{"bad<br />bad", "fine", "good"})) << path;
    EXPECT_EQ(data.train.labels, (Labels{0, 1, 1})) << path;
    EXPECT_EQ(data.test->texts, Texts{"tested"}) << path;
    EXPECT_EQ(data.test->labels, Labels{0}) << path;
  }
  const std::string whole = testing::read_bytes(folder_ / "aclImdb_v1.tar.gz");
  fails("cut.tar.gz", std::string_view(whole).substr(0, whole.size() / 2), {"cut.tar.gz"});
  write_tar(folder_ / "other.tar.gz", {{"x.txt", "y"}});
  expect_says(error_of([&] { load_classification(folder_ / "other.tar.gz"); }),
              {"other.tar.gz", "no labelled texts"});
  write_tar(folder_ / "latin.tar.gz", {{"train/pos/1_9.txt", "caf\xe9"}});
  expect_says(error_of([&] { load_classification(folder_ / "latin.tar.gz"); }),
              {"latin.tar.gz", "train/pos/1_9.txt", "not UTF-8"});
}

TEST_F(Classification, WhatIsNoDataset) {
  folder_.write("empty/x.md", "x");
  expect_says(error_of([&] { load_classification(folder_ / "empty"); }), {"empty", "train.tsv"});
  expect_says(error_of([&] { load_classification(folder_ / "no"); }), {"no such"});
  fails("data.json", "{}", {"data.json", ".tsv is SST-2"});
}

ClassificationSet numbered_set(int count) {
  ClassificationSet set{.class_names = {"a", "b"}};
  for (int i = 0; i < count; ++i) {
    set.texts.push_back("text " + std::to_string(i));
    set.labels.push_back(i % 2);
  }
  return set;
}

TEST(SplitOff, PartitionsByTextAndSeed) {
  const auto set = numbered_set(4000);
  const auto [rest, held] = split_off(set, 0.1, 7);
  EXPECT_EQ(rest.size() + held.size(), set.size());
  // Binomial: 400 texts expected, with standard deviation 19.
  EXPECT_NEAR(static_cast<double>(held.size()), 400, 100);
  EXPECT_EQ(held.class_names, set.class_names);
  for (std::size_t i = 0; i < held.size(); ++i)
    EXPECT_EQ(held.labels[i], std::stoi(held.texts[i].substr(5)) % 2);
  const auto contains = [](const Texts& texts, const std::string& text) {
    return std::ranges::find(texts, text) != texts.end();
  };
  EXPECT_FALSE(contains(rest.texts, held.texts.at(0)));
  // The split does not depend on the order of texts, equal texts stay together, and another seed
  // gives another split.
  auto doubled = set;
  std::ranges::reverse(doubled.texts);
  std::ranges::reverse(doubled.labels);
  doubled.texts.insert(doubled.texts.end(), set.texts.begin(), set.texts.end());
  doubled.labels.insert(doubled.labels.end(), set.labels.begin(), set.labels.end());
  auto twice = split_off(doubled, 0.1, 7).second.texts;
  std::ranges::sort(twice);
  auto expected = held.texts;
  expected.insert(expected.end(), held.texts.begin(), held.texts.end());
  std::ranges::sort(expected);
  EXPECT_EQ(twice, expected);
  EXPECT_NE(split_off(set, 0.1, 8).second.texts, held.texts);
  EXPECT_EQ(split_off(set, 0, 7).second.size(), 0u);
  EXPECT_EQ(split_off(set, 1, 7).first.size(), 0u);
  EXPECT_THROW(split_off(set, 1.5, 7), Error);
}

TEST(MajorityClass, IsChosenOnTrainingAndCountedOnTheOther) {
  ClassificationSet train{{"a", "b", "c", "d"}, {2, 1, 1, 2}, {"x", "y", "z"}};
  EXPECT_EQ(majority_class(train), 1);
  ClassificationSet test{{"a", "b", "c", "d"}, {1, 0, 0, 0}, {"x", "y", "z"}};
  EXPECT_DOUBLE_EQ(majority_accuracy(train, test), 0.25);
  EXPECT_DOUBLE_EQ(majority_accuracy(train, test, 2), 0.5);
  EXPECT_THROW(majority_class({}), Error);
  EXPECT_THROW(majority_accuracy(train, {}), Error);
}

// Counts from a plain Python script over the same files (str.split and the csv module).
TEST(ClassificationFiles, RealOnesHoldWhatTheyShould) {
  const std::string root = testing::shared_data("cls");
  if (root.empty()) GTEST_SKIP() << "missing data: classification files";
  const auto sst2 = load_classification(root + "/sst2");
  EXPECT_EQ(sst2.train.size(), 67349u);
  EXPECT_EQ(sum(sst2.train.labels), 37569);
  EXPECT_EQ(sst2.test->size(), 872u);
  EXPECT_EQ(sum(sst2.test->labels), 444);
  EXPECT_DOUBLE_EQ(majority_accuracy(sst2.train, *sst2.test), 444.0 / 872);
  const auto sst5 = load_classification(root + "/sst5/dev_sample.txt");
  EXPECT_EQ(sst5.train.size(), 100u);
  EXPECT_EQ(sum(sst5.train.labels), 36 + 2 * 27 + 3 * 13 + 4 * 13);
  const auto banking = load_classification(root + "/banking77");
  EXPECT_EQ(banking.train.classes(), 77);
  EXPECT_EQ(banking.train.size(), 10003u);
  EXPECT_EQ(sum(banking.train.labels), 382121);
  EXPECT_EQ(banking.test->size(), 3080u);
  EXPECT_EQ(sum(banking.test->labels), 117040);
  const auto newlines = std::ranges::count_if(banking.train.texts,
                                              [](const auto& t) { return t.find('\n') != t.npos; });
  EXPECT_EQ(newlines, 10);
  EXPECT_EQ(majority_class(banking.train), 20);
  const auto imdb = load_classification(root + "/imdb/sample.tar.gz");
  EXPECT_EQ(imdb.train.size(), 19u);
  EXPECT_EQ(sum(imdb.train.labels), 10);
  EXPECT_FALSE(imdb.test);
}

}  // namespace
}  // namespace penstock
