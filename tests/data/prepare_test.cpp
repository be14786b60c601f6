#include "penstock/data/prepare.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>

#include "penstock/data/assign_splits.h"
#include "penstock/data/dedup.h"
#include "penstock/data/system_corpus.h"
#include "support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;
using testing::read_bytes;

/// A paragraph of 24 words that shares none with those of another number.
std::string paragraph(int number) {
  std::string text;
  for (int word = 0; word < 24; ++word) {
    for (int letter = 0, rest = number * 24 + word; letter < 4; ++letter, rest /= 26)
      text += static_cast<char>('a' + rest % 26);
    text += word % 6 == 5 ? '\n' : ' ';
  }
  return text + "\n";
}

std::string split_text(const Corpus& corpus, Split split) {
  const auto range = corpus.file().range(split);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(range.tokens));
  corpus.file().read(range.begin, ids);
  return corpus.tokenizer().decode(std::vector<TokenId>(ids.begin(), ids.end()));
}

TEST(AssignSplits, ContiguousCutsAtTokenPositions) {
  // 10 + 20 + 30 tokens: 0.5 ends at 30, 0.8 at 48.
  const std::vector<std::int64_t> lengths = {10, 20, 30};
  bool fell_back = true;
  const auto pieces =
      assign_splits(lengths, parse_split_plan("contiguous:0.5,0.3,0.2"), 0, fell_back);
  EXPECT_FALSE(fell_back);
  ASSERT_EQ(pieces.size(), 4u);
  const auto expect = [&](std::size_t i, std::size_t document, std::int64_t begin, std::int64_t end,
                          Split split) {
    EXPECT_EQ(pieces[i].document, document);
    EXPECT_EQ(pieces[i].begin, begin);
    EXPECT_EQ(pieces[i].end, end);
    EXPECT_EQ(pieces[i].split, split);
  };
  expect(0, 0, 0, 10, Split::kTrain);
  expect(1, 1, 0, 20, Split::kTrain);
  expect(2, 2, 0, 18, Split::kValidation);
  expect(3, 2, 18, 30, Split::kTest);
}

TEST(AssignSplits, DocumentsStayWholeAndSharesAreMet) {
  std::vector<std::int64_t> lengths(400);
  for (std::size_t i = 0; i < lengths.size(); ++i)
    lengths[i] = 50 + static_cast<std::int64_t>(i * 37 % 100);
  const double total =
      static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
  bool fell_back = true;
  const SplitPlan plan = parse_split_plan("0.8,0.15,0.05");
  const auto pieces = assign_splits(lengths, plan, 1, fell_back);
  EXPECT_FALSE(fell_back);
  ASSERT_EQ(pieces.size(), 400u);
  std::array<double, 3> sums{};
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(pieces[i].document, i);
    EXPECT_EQ(pieces[i].end - pieces[i].begin, lengths[i]);
    sums[static_cast<std::size_t>(pieces[i].split)] += static_cast<double>(lengths[i]);
  }
  for (std::size_t s = 0; s < 3; ++s) EXPECT_NEAR(sums[s] / total, plan.shares[s], 0.005);
  const auto splits_of = [&](std::uint64_t seed) {
    std::vector<Split> out;
    for (const auto& piece : assign_splits(lengths, plan, seed, fell_back))
      out.push_back(piece.split);
    return out;
  };
  EXPECT_EQ(splits_of(1), splits_of(1));
  EXPECT_NE(splits_of(1), splits_of(2));
}

TEST(AssignSplits, ASingleDocumentIsCutInstead) {
  const std::vector<std::int64_t> lengths = {1000};
  bool fell_back = false;
  const auto pieces = assign_splits(lengths, parse_split_plan("0.9,0.1"), 0, fell_back);
  EXPECT_TRUE(fell_back);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].end, 900);
  EXPECT_EQ(pieces[1].split, Split::kValidation);
}

TEST(AssignSplits, PlansAreChecked) {
  EXPECT_EQ(parse_split_plan("contiguous:0.9,0.1,0").shares, (std::array<double, 3>{0.9, 0.1, 0}));
  EXPECT_TRUE(parse_split_plan("contiguous:1").contiguous);
  for (const char* bad :
       {"", "0.9", "0.9,0.2", "1.5,-0.5", "0.5,0.5,0,0", "0.9,0.1,", "a,b", "0.9;0.1", "nan,0,0"})
    expect_says(error_of([&] { parse_split_plan(bad); }), {bad, "sum to 1"});
}

TEST(Dedup, CountsByHand) {
  std::string copy = paragraph(1);
  std::replace(copy.begin(), copy.end(), '\n', ' ');
  std::transform(copy.begin(), copy.end(), copy.begin(),
                 [](char c) { return static_cast<char>(std::toupper(c)); });
  const std::string licence =
      "# Copyright 1999 the authors of this work, who disclaim all warranty of any kind\n\n";
  const std::string again =
      "// copyright 2024 the authors of this work,\n// who disclaim all warranty of any kind\n\n";
  std::vector<Document> documents = {
      {paragraph(1) + "}\n\n" + paragraph(2), "a"},
      {copy + "\n\n}\n\n" + paragraph(3),
       "a"},                // one copy in capitals on one line, one short paragraph
      {paragraph(2), "b"},  // nothing new: the document goes
      {licence + paragraph(4), "b"},
      {again + paragraph(5), "b"},  // another year, other comment signs
  };
  const DedupResult result = remove_near_duplicates(documents);
  EXPECT_EQ(result.paragraphs, 9);
  EXPECT_EQ(result.removed, 3);
  EXPECT_EQ(result.removed_documents, 1);
  ASSERT_EQ(documents.size(), 4u);
  EXPECT_EQ(documents[0].text, paragraph(1) + "}\n\n" + paragraph(2));
  EXPECT_EQ(documents[1].text, "}\n\n" + paragraph(3));
  EXPECT_EQ(documents[2].text, licence + paragraph(4));
  EXPECT_EQ(documents[3].text, paragraph(5));
  EXPECT_EQ(result.removed_bytes,
            static_cast<std::int64_t>(copy.size() + 2 + paragraph(2).size() + again.size()));
}

TEST(Dedup, AnExcerptGoesAndItsWholeStaysWhateverTheOrder) {
  const std::string whole = paragraph(7), excerpt = whole.substr(0, whole.size() / 2) + "\n\n";
  std::vector<Document> documents = {{excerpt, "a"}, {whole, "a"}};
  EXPECT_EQ(remove_near_duplicates(documents).removed, 1);
  ASSERT_EQ(documents.size(), 1u);
  EXPECT_EQ(documents[0].text, whole);
}

TEST(Dedup, AFrameAroundNothingGoes) {
  std::vector<Document> documents = {{paragraph(1) + paragraph(2), "a"},
                                     {"#pragma once\n\n" + paragraph(1) + paragraph(2), "a"}};
  const DedupResult result = remove_near_duplicates(documents);
  EXPECT_EQ(result.removed, 2);
  EXPECT_EQ(result.removed_documents, 1);
  EXPECT_EQ(documents.size(), 1u);
}

TEST(Dedup, ALittleOverlapIsNoDuplicate) {
  // A quarter of each is common.
  const std::string common = paragraph(1).substr(0, 30);
  std::vector<Document> documents = {{common + paragraph(2), "a"}, {common + paragraph(3), "a"}};
  EXPECT_EQ(remove_near_duplicates(documents).removed, 0);
}

TEST(Dedup, HeldOutTextIsLeftAlone) {
  std::vector<Document> documents = {{paragraph(1) + paragraph(2), "a"},
                                     {paragraph(1) + paragraph(1), "a", Split::kValidation}};
  EXPECT_EQ(remove_near_duplicates(documents).removed, 1);
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_EQ(documents[0].text, paragraph(2));
  EXPECT_EQ(documents[1].text, paragraph(1) + paragraph(1));
}

TEST(Dedup, OverlapIsTheShareOfKnownParagraphs) {
  const std::string train = paragraph(1) + paragraph(2),
                    probe = paragraph(2) + paragraph(3) + paragraph(4) + "}\n\n" + paragraph(1);
  const std::vector<std::string_view> reference = {train}, probes = {probe}, none;
  EXPECT_DOUBLE_EQ(paragraph_overlap(reference, probes), 0.5);
  EXPECT_DOUBLE_EQ(paragraph_overlap(none, probes), 0.0);
  EXPECT_DOUBLE_EQ(paragraph_overlap(reference, none), 0.0);
}

class Prepare : public ::testing::Test {
 protected:
  PrepareOptions options(const std::string& out = "corpus") const {
    PrepareOptions options;
    options.out = folder_ / out;
    return options;
  }
  /// Twenty documents in two domains.
  std::string many() const {
    for (int i = 0; i < 20; ++i)
      folder_.write(
          "many/" + std::string(i % 2 ? "odd" : "even") + "/" + std::to_string(100 + i) + ".txt",
          paragraph(i));
    return folder_ / "many";
  }
  testing::TemporaryFolder folder_;
};

TEST_F(Prepare, ContiguousSplitOfOneFileKeepsEveryByte) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += paragraph(i);
  auto o = options();
  o.inputs = {{.path = folder_.write("play.txt", text)}};
  o.split = "contiguous:0.9,0.1,0";
  o.end_of_document = false;
  const PrepareResult result = prepare_corpus(o);
  const Corpus corpus = Corpus::open(o.out);
  const auto size = static_cast<std::int64_t>(text.size());
  EXPECT_EQ(corpus.count(Split::kTrain).tokens, size * 9 / 10);
  EXPECT_EQ(corpus.count(Split::kTrain).bytes + corpus.count(Split::kValidation).bytes, size);
  EXPECT_EQ(split_text(corpus, Split::kTrain) + split_text(corpus, Split::kValidation), text);
  EXPECT_EQ(corpus.domains(), std::vector<std::string>{"play"});
  EXPECT_FALSE(result.deduplicated);
  EXPECT_EQ(result.tokenizer, "bytes");
  EXPECT_NO_THROW(corpus.file().verify());
}

TEST_F(Prepare, TheSameInputAndSeedGiveTheSameBytes) {
  auto one = options("one"), two = options("two"), other = options("other");
  one.inputs = two.inputs = other.inputs = {{.path = many()}};
  one.split = two.split = other.split = "0.6,0.2,0.2";
  other.seed = 1;
  for (const auto& o : {one, two, other}) prepare_corpus(o);
  for (const char* name : {"/tokens.bin", "/tokenizer.json", "/corpus.json"})
    EXPECT_EQ(read_bytes(one.out + name), read_bytes(two.out + name)) << name;
  EXPECT_EQ(Corpus::open(one.out).content_hash(), Corpus::open(two.out).content_hash());
  EXPECT_NE(Corpus::open(one.out).content_hash(), Corpus::open(other.out).content_hash());
}

TEST_F(Prepare, EverySplitGetsDocumentsOfEveryDomain) {
  auto o = options();
  o.inputs = {{.path = many()}};
  o.split = "0.6,0.2,0.2";
  const PrepareResult result = prepare_corpus(o);
  EXPECT_TRUE(result.notes.empty());
  const Corpus corpus = Corpus::open(o.out);
  EXPECT_EQ(corpus.domains(), (std::vector<std::string>{"even", "odd"}));
  for (std::size_t domain = 0; domain < 2; ++domain) {
    EXPECT_EQ(corpus.count(Split::kTrain, domain).documents, 6);
    EXPECT_EQ(corpus.count(Split::kValidation, domain).documents, 2);
    EXPECT_EQ(corpus.count(Split::kTest, domain).documents, 2);
  }
  // Each document ends in byte 0, which is no text.
  EXPECT_EQ(corpus.count(Split::kTrain).tokens, corpus.count(Split::kTrain).bytes + 12);
}

TEST_F(Prepare, HeldOutFilesGoWhereTheyAreSent) {
  auto o = options();
  o.inputs = {
      {.path = folder_.write("a.txt", "training text")},
      {.path = folder_.write("v.txt", "validation"), .domain = "a", .split = Split::kValidation},
      {.path = folder_.write("t.txt", "test"), .domain = "a", .split = Split::kTest}};
  o.split = "1,0,0";
  prepare_corpus(o);
  const Corpus corpus = Corpus::open(o.out);
  EXPECT_EQ(split_text(corpus, Split::kTrain), "training text");
  EXPECT_EQ(split_text(corpus, Split::kValidation), "validation");
  EXPECT_EQ(split_text(corpus, Split::kTest), "test");
}

TEST_F(Prepare, ManifestCountsAndTrainedTokenizer) {
  auto o = options();
  o.inputs = {{.path = many()}};
  o.tokenizer = "bpe:300";
  o.dedup = true;
  const PrepareResult result = prepare_corpus(o);
  const auto json = nlohmann::json::parse(read_bytes(o.out + "/corpus.json"));
  EXPECT_EQ(json.at("tokenizer"), "bpe:300");
  EXPECT_EQ(json.at("vocab_size"), 300);
  EXPECT_EQ(json.at("removed_paragraphs"), 0);
  EXPECT_EQ(json.at("paragraphs"), 20);
  EXPECT_EQ(json.at("validation_overlap"), 0.0);
  const Corpus corpus = Corpus::open(o.out);
  EXPECT_EQ(corpus.tokenizer_spec(), "bpe:300");
  EXPECT_EQ(json.at("splits").at("train").at("tokens"), corpus.count(Split::kTrain).tokens);
  EXPECT_EQ(json.at("domains").at("odd").at("train").at("bytes"),
            corpus.count(Split::kTrain, 1).bytes);
  std::int64_t bytes = 0, size = 0;
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest})
    bytes += corpus.count(split).bytes;
  for (int i = 0; i < 20; ++i) size += static_cast<std::int64_t>(paragraph(i).size());
  EXPECT_EQ(bytes, size);
  EXPECT_EQ(result.content_hash.size(), 16u);
}

TEST_F(Prepare, ReplacesACorpusAndNothingElse) {
  auto o = options();
  const std::string input = many();
  o.inputs = {{.path = input}};
  prepare_corpus(o);
  o.inputs = {{.path = folder_.write("new.txt", std::string(300, 'n'))}};
  o.out += "/";
  prepare_corpus(o);
  EXPECT_EQ(Corpus::open(o.out).domains(), std::vector<std::string>{"new"});
  for (const std::string& target : {input, folder_ / "new.txt"}) {
    o.out = target;
    expect_says(error_of([&] { prepare_corpus(o); }), {target, "not a corpus"});
  }
  EXPECT_EQ(read_bytes(folder_ / "new.txt").size(), 300u);
  EXPECT_TRUE(std::filesystem::exists(input + "/odd"));
  // A failed run leaves the earlier corpus, and no temporary folder.
  o = options();
  o.inputs = {{.path = folder_.write("bad.txt", "\xff")}};
  EXPECT_THROW(prepare_corpus(o), Error);
  EXPECT_EQ(Corpus::open(o.out).domains(), std::vector<std::string>{"new"});
}

TEST_F(Prepare, ErrorsSayWhatToDo) {
  auto o = options();
  const auto fails = [&](std::initializer_list<std::string_view> parts) {
    expect_says(error_of([&] { prepare_corpus(o); }), parts);
    EXPECT_FALSE(std::filesystem::exists(o.out));
  };
  fails({"nothing to prepare", "--system"});
  o.inputs = {{.path = folder_ / "missing.txt"}};
  fails({"missing.txt", "no such file"});
  o.inputs = {{.path = folder_.write("empty.txt", "")}};
  fails({"empty.txt", "empty"});
  o.inputs = {{.path = folder_.write("nul.txt", std::string_view("a\0b", 3))}};
  fails({"nul.txt", "NUL", "--no-eod"});
  o.inputs = {{.path = folder_.write("short.txt", "a short text")}};
  o.tokenizer = "bpe:4096";
  fails({"bpe:4096", "too large"});
  o.tokenizer = "words";
  fails({"unknown tokenizer 'words'"});
  o.tokenizer = "bytes";
  o.split = "0.5,0.6";
  fails({"0.5,0.6"});
  o.split = "1,0,0";
  o.system = true;
  fails({"--system", "no inputs"});
}

TEST_F(Prepare, DamagedCorporaAreErrors) {
  auto o = options();
  o.inputs = {{.path = many()}};
  prepare_corpus(o);
  expect_says(error_of([&] { Corpus::open(folder_ / "nowhere"); }),
              {"nowhere", "penstock data prepare"});
  expect_says(error_of([&] { Corpus::open(folder_ / "many"); }), {"many", "tokens.bin"});
  std::filesystem::remove(o.out + "/tokenizer.json");
  expect_says(error_of([&] { Corpus::open(o.out); }), {"no tokenizer"});
}

TEST(SystemCorpus, TakesEachDomainFromItsPlaceAndOnlyThere) {
  const testing::TemporaryFolder root;
  const std::string filler(400, 'f');
  root.write("usr/include/c++/12/vector", "// vector " + filler);
  root.write("usr/include/ATen/Tensor.h", "// tensor " + filler);
  root.write("usr/include/ATen/ops/abs.h", "// @generated by a script " + filler);
  root.write("usr/include/ATen/notes.txt", "// no header " + filler);
  root.write("usr/include/stdio.h", "// C, not C++ " + filler);
  root.write("usr/share/perl/5.36.0/A.pm",
             "code();\n=head1 NAME\n\nmanual " + filler + "\n\n=cut\nmore(); # " + filler + "\n");
  root.write("usr/lib/x86_64-linux-gnu/perl-base/B.pod", "=pod\n\nonly manual " + filler + "\n");
  root.write("usr/share/cmake-3.25/Modules/Find.cmake", "# find " + filler);
  root.write("usr/lib/python3.11/os.py", "# os " + filler);
  root.write("usr/lib/python3.11/tiny.py", "x");
  root.write("usr/lib/python3.11/latin.py", "\xff" + filler);
  root.write("usr/share/doc/pkg/copyright", "licence " + filler);
  root.write("usr/share/doc/pkg/image.svg", filler);
  std::filesystem::create_symlink(root / "usr/lib/python3.11/os.py",
                                  root / "usr/lib/python3.11/link.py");
  root.write("var/lib/dpkg/status",
             "Package: a\nDescription: first line\n more of it\n .\n last line\nHomepage: "
             "x\n\nPackage: b\nDescription: second\n");
  std::vector<std::string> seen;
  for (const auto& document : read_system_documents({.root = root / ""}))
    seen.push_back(document.domain + ": " + document.text.substr(0, document.text.find(filler)));
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::string>{
                      "cmake: # find ", "cpp: // tensor ", "cpp: // vector ",
                      "perl-manual: =head1 NAME\n\nmanual ", "perl-manual: =pod\n\nonly manual ",
                      "perl: code();\nmore(); # ",
                      "prose: first line\nmore of it\n\nlast line\n\nsecond\n", "prose: licence ",
                      "python: # os "}));
  EXPECT_TRUE(read_system_documents({.root = root / "usr"}).empty());
}

TEST(SystemCorpus, ChoiceIsLimitedAndSeeded) {
  const testing::TemporaryFolder root;
  for (int i = 0; i < 40; ++i)
    root.write("usr/share/cmake/" + std::to_string(i) + ".cmake",
               "# " + std::to_string(i) + std::string(998, 'x'));
  const auto chosen = [&](std::uint64_t seed) {
    std::string out;
    for (const auto& document :
         read_system_documents({.seed = seed, .domain_bytes = 5000, .root = root / ""}))
      out += document.text.substr(0, 4);
    return out;
  };
  EXPECT_EQ(chosen(0).size(), 5u * 4);
  EXPECT_EQ(chosen(0), chosen(0));
  EXPECT_NE(chosen(0), chosen(1));
}

/// Skips, saying so, where the data sets are not at hand; fails where they should be.
class RealData : public Prepare {
 protected:
  std::string data(const std::string& name) {
    const auto shared = std::filesystem::path(PENSTOCK_SOURCE_DIR).parent_path() / "shared";
    const auto path = shared / "data" / name;
    if (std::filesystem::exists(path)) return path.string();
    const char* ci = std::getenv("CI");
    EXPECT_FALSE(ci && std::string(ci) == "true" && std::filesystem::exists(shared))
        << path << " is missing";
    return {};
  }
};

TEST_F(RealData, TinyShakespeareSplitsAsUsual) {
  const std::string input = data("lm/tinyshakespeare/input.txt");
  if (input.empty()) GTEST_SKIP() << "no tiny Shakespeare at hand";
  auto o = options();
  o.inputs = {{.path = input}};
  o.split = "contiguous:0.9,0.1,0";
  o.end_of_document = false;
  prepare_corpus(o);
  // nanoGPT's data/shakespeare_char: 1,003,854 and 111,540.
  EXPECT_EQ(Corpus::open(o.out).count(Split::kTrain).tokens, 1003854);
  EXPECT_EQ(Corpus::open(o.out).count(Split::kValidation).tokens, 111540);
}

TEST_F(RealData, CompressedTextAndJsonlOfSeveralDomains) {
  const std::string arxiv = data("lm/domains/arxiv.txt.gz"),
                    exchange = data("lm/domains/stackexchange.jsonl.gz");
  if (arxiv.empty() || exchange.empty()) GTEST_SKIP() << "no domain samples at hand";
  auto o = options();
  o.inputs = {{.path = arxiv}, {.path = exchange}};
  prepare_corpus(o);
  const Corpus corpus = Corpus::open(o.out);
  EXPECT_EQ(corpus.domains(), (std::vector<std::string>{"arxiv", "stackexchange"}));
  // 48 lines of JSONL are 48 documents; one file of text is cut in two or three.
  std::int64_t documents = 0;
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    documents += corpus.count(split, 1).documents;
    EXPECT_EQ(corpus.count(split, 0).documents, 1);
  }
  EXPECT_EQ(documents, 48);
  // The sample of papers repeats itself: a quarter of the bytes of its longer lines.
  o.dedup = true;
  const PrepareResult result = prepare_corpus(o);
  EXPECT_GT(result.removed_bytes, 200'000);
  EXPECT_LT(result.validation_overlap, 0.02);
}

}  // namespace
}  // namespace penstock
