#include "penstock/data/prepare/prepare.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "penstock/data/tokenizers/from_spec.h"
#include "tests/data/prepare/twenty_documents.h"
#include "tests/data/prepared_corpus.h"
#include "tests/data/sentencepiece_usable.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;
using testing::paragraph;
using testing::read_bytes;
using testing::text_of_split;
using testing::twenty_documents;

class Prepare : public ::testing::Test {
 protected:
  PrepareOptions options(const std::string& out = "corpus") const {
    PrepareOptions options;
    options.out = folder_ / out;
    return options;
  }
  testing::TemporaryFolder folder_;
};

/// Bytes of this process's memory that no file backs.
std::int64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  std::int64_t kilobytes = 0;
  for (std::string word; status >> word;)
    if (word == "RssAnon:") status >> kilobytes;
  return kilobytes << 10;
}

TEST_F(Prepare, MemoryDoesNotHoldTheText) {
  constexpr std::int64_t text_bytes = 96 << 20;
  {
    std::ofstream out(folder_ / "much.jsonl");
    const std::string line = "{\"text\": \"" + std::string(8000, 'a') + "\"}\n";
    for (std::int64_t bytes = 0; bytes < text_bytes; bytes += std::ssize(line)) out << line;
  }
  auto o = options();
  o.inputs = {{.path = folder_ / "much.jsonl"}};
  const std::int64_t before = anonymous_bytes();
  std::int64_t most = 0;
  const auto measure = [&] { most = std::max(most, anonymous_bytes() - before); };
  o.before_writing = measure;
  const PrepareResult result = prepare_corpus(o, [&](std::string_view) { measure(); });
  EXPECT_GT(result.domains.at(0).counts[0].bytes, text_bytes / 2);
  EXPECT_GT(before, 0);
  EXPECT_LT(most, text_bytes / 4);
}

TEST_F(Prepare, TheSameInputAndSeedGiveTheSameBytes) {
  auto one = options("one"), two = options("two"), other = options("other");
  one.inputs = two.inputs = other.inputs = {{.path = twenty_documents(folder_)}};
  one.split = two.split = other.split = "0.6,0.2,0.2";
  other.seed = 1;
  for (const auto& o : {one, two, other}) prepare_corpus(o);
  for (const char* name : {"/tokens.bin", "/tokenizer.json", "/corpus.json"})
    EXPECT_EQ(read_bytes(one.out + name), read_bytes(two.out + name)) << name;
  EXPECT_EQ(Corpus::open(one.out).content_hash(), Corpus::open(two.out).content_hash());
  EXPECT_NE(Corpus::open(one.out).content_hash(), Corpus::open(other.out).content_hash());
}

TEST_F(Prepare, ShardsAreTheSameCorpus) {
  auto one = options("one"), shards = options("shards");
  one.inputs = shards.inputs = {{.path = twenty_documents(folder_)}};
  prepare_corpus(one);
  const std::int64_t tokens = Corpus::open(one.out).file().tokens();
  shards.shard_tokens = tokens / 3;
  prepare_corpus(shards);
  const Corpus whole = Corpus::open(one.out), parts = Corpus::open(shards.out);
  EXPECT_EQ(parts.content_hash(), whole.content_hash());
  EXPECT_GE(parts.file().shards(), 3u);
  std::vector<std::int64_t> found(static_cast<std::size_t>(tokens)), wanted(found);
  parts.file().read(0, found);
  whole.file().read(0, wanted);
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(read_bytes(shards.out + "/corpus.json"), read_bytes(one.out + "/corpus.json"));
  prepare_corpus([&] {  // back to one file: the shards are removed
    shards.shard_tokens = 0;
    return shards;
  }());
  EXPECT_FALSE(std::filesystem::exists(shards.out + "/tokens-00001-of-00003.bin"));
  EXPECT_EQ(Corpus::open(shards.out).file().shards(), 0u);
  shards.shard_tokens = -1;
  expect_says(error_of([&] { prepare_corpus(shards); }), {"shard_tokens"});
}

TEST_F(Prepare, TakesNoMoreTextThanAskedForOfEachDomain) {
  auto o = options();
  o.inputs = {{.path = twenty_documents(folder_)}};
  o.split = "0.6,0.2,0.2";
  prepare_corpus(o);
  const auto bytes_of_all = [&](const Corpus& corpus) {
    std::int64_t sum = 0;
    for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest})
      sum += corpus.count(split).bytes;
    return sum;
  };
  const std::int64_t all = bytes_of_all(Corpus::open(o.out));
  o.most_bytes = all / 2;
  const PrepareResult half = prepare_corpus(o);
  const Corpus corpus = Corpus::open(o.out);
  EXPECT_LE(bytes_of_all(corpus), all / 2);
  EXPECT_EQ(corpus.domains(), (std::vector<std::string>{"even", "odd"}));
  EXPECT_GT(corpus.count(Split::kTrain).documents, 0);
  EXPECT_NE(half.notes.front().find("bytes of text are taken"), std::string::npos);
  o.most_bytes = -1;
  expect_says(error_of([&] { prepare_corpus(o); }), {"options.most_bytes", "-1"});
}

TEST_F(Prepare, ManifestCountsAndTrainedTokenizer) {
  if (!testing::sentencepiece_usable()) GTEST_SKIP() << "built with AddressSanitizer";
  auto o = options();
  o.inputs = {{.path = twenty_documents(folder_)}};
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

TEST_F(Prepare, TakesATokenizerThatExists) {
  auto o = options();
  o.inputs = {{.path = folder_.write("text.txt", "a weir, a gate")}};
  o.split = "1,0,0";
  const std::vector<std::string_view> texts = {"a weir, a gate, a turbine"};
  o.given = make_tokenizer("byte-vocabulary", texts);
  const PrepareResult result = prepare_corpus(o);
  EXPECT_EQ(result.vocab_size, o.given->vocab_size());
  const Corpus corpus = Corpus::open(o.out);
  EXPECT_EQ(corpus.tokenizer().files(), o.given->files());
  // Without an end-of-document token.
  EXPECT_EQ(text_of_split(corpus, Split::kTrain), "a weir, a gate");
  o.protocol = "enwik8";
  expect_says(error_of([&] { prepare_corpus(o); }), {"enwik8", "which tokenizer"});
}

TEST_F(Prepare, TheTokenizerSeesTrainingTextAlone) {
  if (!testing::sentencepiece_usable()) GTEST_SKIP() << "built with AddressSanitizer";
  auto o = options();
  o.inputs = {{.path = twenty_documents(folder_)}};
  o.tokenizer = "bpe:300";
  for (const char* split : {"0.6,0.2,0.2", "contiguous:0.6,0.2,0.2"}) {
    o.split = split;
    prepare_corpus(o);
    const Corpus corpus = Corpus::open(o.out);
    std::vector<std::string> texts;
    std::vector<std::int64_t> ids;
    for (const auto& document : corpus.file().documents()) {
      if (document.split != Split::kTrain) continue;
      ids.resize(static_cast<std::size_t>(document.tokens));
      corpus.file().read(static_cast<std::int64_t>(document.begin), ids);
      texts.push_back(corpus.tokenizer().decode(std::vector<TokenId>(ids.begin(), ids.end())));
    }
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    EXPECT_TRUE(corpus.tokenizer().files() == make_tokenizer("bpe:300", views)->files()) << split;
  }
}

TEST_F(Prepare, SystemNotesEveryDomainThatIsNotThere) {
  // Python's files repeat CMake's paragraphs, Perl's text is too short, and the rest has none.
  for (int file = 0; file < 12; ++file) {
    std::string text;
    for (int i = 0; i < 900; ++i) text += paragraph(file * 900 + i) + "\n";
    const std::string name = std::to_string(100 + file);
    folder_.write("root/usr/share/cmake/" + name + ".cmake", text);
    folder_.write("root/usr/lib/python3/" + name + ".py", text);
  }
  folder_.write("root/usr/share/perl/A.pm", paragraph(18000) + paragraph(18001));
  auto o = options();
  o.system = true;
  o.system_root = folder_ / "root/";
  const PrepareResult result = prepare_corpus(o);
  ASSERT_EQ(result.domains.size(), 1u);
  EXPECT_EQ(result.domains[0].name, "cmake");
  std::string notes;
  for (const auto& note : result.notes) notes += note + "\n";
  expect_says(notes, {"domain cpp missing: this machine has no text of it",
                      "domain perl dropped: ", "domain perl-manual missing: ",
                      "domain python dropped: all of its text repeats other text",
                      "domain prose missing: "});
  EXPECT_EQ(result.notes.size(), 5u) << notes;
}

TEST_F(Prepare, ErrorsSayWhatToDo) {
  if (!testing::sentencepiece_usable()) GTEST_SKIP() << "built with AddressSanitizer";
  auto o = options();
  const auto fails = [&](std::initializer_list<std::string_view> parts) {
    expect_says(error_of([&] { prepare_corpus(o); }), parts);
    EXPECT_FALSE(std::filesystem::exists(o.out));
  };
  fails({"nothing to prepare", "options.system"});
  o.inputs = {{.path = folder_ / "missing.txt"}};
  fails({"missing.txt", "no such file"});
  o.inputs = {{.path = folder_.write("empty.txt", "")}};
  fails({"empty.txt", "empty"});
  o.inputs = {{.path = folder_.write("nul.txt", std::string_view("a\0b", 3))}};
  fails({"nul.txt", "NUL", "--no-eod"});
  o.inputs = {{.path = folder_.write("short.txt", "a short text")}};
  o.tokenizer = "bpe:4096";
  fails({"bpe:4096", "too large"});
  o.tokenizer = "letters";
  fails({"unknown tokenizer 'letters'"});
  o.tokenizer = "bytes";
  o.split = "0.5,0.6";
  fails({"0.5,0.6"});
  o.split = "1,0,0";
  o.system = true;
  fails({"options.system", "no inputs"});
}

TEST_F(Prepare, DamagedCorporaAreErrors) {
  auto o = options();
  o.inputs = {{.path = twenty_documents(folder_)}};
  prepare_corpus(o);
  expect_says(error_of([&] { Corpus::open(folder_ / "nowhere"); }),
              {"nowhere", "penstock data prepare"});
  expect_says(error_of([&] { Corpus::open(folder_ / "many"); }), {"many", "tokens.bin"});
  std::filesystem::remove(o.out + "/tokenizer.json");
  expect_says(error_of([&] { Corpus::open(o.out); }), {"no tokenizer"});
}

TEST_F(Prepare, TinyShakespeareSplitsAsUsual) {
  const std::string input = testing::shared_data("lm/tinyshakespeare/input.txt");
  if (input.empty()) GTEST_SKIP() << "missing data: tiny Shakespeare";
  auto o = options();
  o.inputs = {{.path = input}};
  o.split = "contiguous:0.9,0.1,0";
  o.end_of_document = false;
  prepare_corpus(o);
  // nanoGPT's data/shakespeare_char has 1,003,854 and 111,540 tokens.
  EXPECT_EQ(Corpus::open(o.out).count(Split::kTrain).tokens, 1003854);
  EXPECT_EQ(Corpus::open(o.out).count(Split::kValidation).tokens, 111540);
}

TEST_F(Prepare, CompressedTextAndJsonlOfSeveralDomains) {
  const std::string arxiv = testing::shared_data("lm/domains/arxiv.txt.gz"),
                    exchange = testing::shared_data("lm/domains/stackexchange.jsonl.gz");
  if (arxiv.empty() || exchange.empty()) GTEST_SKIP() << "missing data: samples of two domains";
  auto o = options();
  o.inputs = {{.path = arxiv}, {.path = exchange}};
  prepare_corpus(o);
  const Corpus corpus = Corpus::open(o.out);
  EXPECT_EQ(corpus.domains(), (std::vector<std::string>{"arxiv", "stackexchange"}));
  // 48 lines of JSONL are 48 documents. The one text file is cut into a part for each split.
  std::int64_t documents = 0;
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest}) {
    documents += corpus.count(split, 1).documents;
    EXPECT_EQ(corpus.count(split, 0).documents, 1);
  }
  EXPECT_EQ(documents, 48);
  // The sample of papers repeats a quarter of the bytes of its longer lines.
  o.dedup = true;
  const PrepareResult result = prepare_corpus(o);
  EXPECT_GT(result.removed_bytes, 200'000);
  EXPECT_LT(result.validation_overlap, 0.02);
}

}  // namespace
}  // namespace penstock
