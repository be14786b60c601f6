// What a preparation replaces, and what it leaves alone.
#include "penstock/data/prepare/corpus_target.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "penstock/data/prepare/prepare.h"
#include "tests/data/prepare/twenty_documents.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;
using testing::read_bytes;
using testing::twenty_documents;

class CorpusTarget : public ::testing::Test {
 protected:
  PrepareOptions of(std::vector<DataInput> inputs) const {
    return {.inputs = std::move(inputs), .out = folder_ / "corpus"};
  }
  testing::TemporaryFolder folder_;
};

TEST_F(CorpusTarget, ReplacesACorpusAndNothingElse) {
  const std::string input = twenty_documents(folder_);
  auto o = of({{.path = input}});
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
  // A failed run keeps the earlier corpus and leaves no temporary folder.
  o = of({{.path = folder_.write("bad.txt", "\xff")}});
  EXPECT_THROW(prepare_corpus(o), Error);
  EXPECT_EQ(Corpus::open(o.out).domains(), std::vector<std::string>{"new"});
}

TEST_F(CorpusTarget, TakesUpWhatAKilledRunLeftAndNothingElse) {
  auto o = of({{.path = twenty_documents(folder_)}});
  prepare_corpus(o);
  // The state of a run killed between its two renames. The process number exceeds Linux's maximum.
  std::filesystem::rename(o.out, folder_ / ".corpus.old-2147483646");
  std::filesystem::create_directory(folder_ / ".corpus.tmp-2147483646");
  std::filesystem::create_directory(folder_ / ".other.tmp-2147483646");
  o.inputs = {{.path = folder_.write("bad.txt", "\xff")}};
  EXPECT_THROW(prepare_corpus(o), Error);
  EXPECT_EQ(Corpus::open(o.out).domains(), (std::vector<std::string>{"even", "odd"}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / ".corpus.old-2147483646"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / ".corpus.tmp-2147483646"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / ".other.tmp-2147483646"));
}

}  // namespace
}  // namespace penstock
