// How a preparation divides documents into splits. assign_splits_test.cpp tests the shares of one
// domain.
#include "penstock/data/prepare/divide_documents.h"

#include <string>
#include <utility>
#include <vector>

#include "penstock/data/prepare/prepare.h"
#include "tests/data/prepare/twenty_documents.h"
#include "tests/data/prepared_corpus.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::paragraph;
using testing::text_of_split;
using testing::twenty_documents;

class DivideDocuments : public ::testing::Test {
 protected:
  PrepareOptions of(std::vector<DataInput> inputs, const std::string& split) const {
    return {.inputs = std::move(inputs), .split = split, .out = folder_ / "corpus"};
  }
  testing::TemporaryFolder folder_;
};

TEST_F(DivideDocuments, ContiguousSplitOfOneFileKeepsEveryByte) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += paragraph(i);
  auto o = of({{.path = folder_.write("play.txt", text)}}, "contiguous:0.9,0.1,0");
  o.end_of_document = false;
  const PrepareResult result = prepare_corpus(o);
  const Corpus corpus = Corpus::open(o.out);
  const auto size = static_cast<std::int64_t>(text.size());
  EXPECT_EQ(corpus.count(Split::kTrain).tokens, size * 9 / 10);
  EXPECT_EQ(corpus.count(Split::kTrain).bytes + corpus.count(Split::kValidation).bytes, size);
  EXPECT_EQ(text_of_split(corpus, Split::kTrain) + text_of_split(corpus, Split::kValidation), text);
  EXPECT_EQ(corpus.domains(), std::vector<std::string>{"play"});
  EXPECT_FALSE(result.deduplicated);
  EXPECT_EQ(result.tokenizer, "bytes");
  EXPECT_NO_THROW(corpus.file().verify());
}

TEST_F(DivideDocuments, EverySplitGetsDocumentsOfEveryDomain) {
  const auto o = of({{.path = twenty_documents(folder_)}}, "0.6,0.2,0.2");
  const PrepareResult result = prepare_corpus(o);
  EXPECT_TRUE(result.notes.empty());
  const Corpus corpus = Corpus::open(o.out);
  EXPECT_EQ(corpus.domains(), (std::vector<std::string>{"even", "odd"}));
  for (std::size_t domain = 0; domain < 2; ++domain) {
    EXPECT_EQ(corpus.count(Split::kTrain, domain).documents, 6);
    EXPECT_EQ(corpus.count(Split::kValidation, domain).documents, 2);
    EXPECT_EQ(corpus.count(Split::kTest, domain).documents, 2);
  }
  // Each document ends in byte 0, which does not count as text.
  EXPECT_EQ(corpus.count(Split::kTrain).tokens, corpus.count(Split::kTrain).bytes + 12);
}

TEST_F(DivideDocuments, HeldOutFilesGoWhereTheyAreSent) {
  const auto o = of(
      {{.path = folder_.write("a.txt", "training text")},
       {.path = folder_.write("v.txt", "validation"), .domain = "a", .split = Split::kValidation},
       {.path = folder_.write("t.txt", "test"), .domain = "a", .split = Split::kTest}},
      "1,0,0");
  prepare_corpus(o);
  const Corpus corpus = Corpus::open(o.out);
  EXPECT_EQ(text_of_split(corpus, Split::kTrain), "training text");
  EXPECT_EQ(text_of_split(corpus, Split::kValidation), "validation");
  EXPECT_EQ(text_of_split(corpus, Split::kTest), "test");
}

TEST_F(DivideDocuments, ACutFallsBetweenCharacters) {
  // Bytes 0 to 5 are é€b (2, 3 and 1 bytes). The cut at byte 3 falls within the €.
  const std::string text =
      "\xc3\xa9\xe2\x82\xac"
      "b";
  auto o = of({{.path = folder_.write("cut.txt", text)}}, "contiguous:0.5,0.5,0");
  o.end_of_document = false;
  prepare_corpus(o);
  const Corpus corpus = Corpus::open(o.out);
  EXPECT_EQ(text_of_split(corpus, Split::kTrain), "\xc3\xa9\xe2\x82\xac");
  EXPECT_EQ(text_of_split(corpus, Split::kValidation), "b");
}

}  // namespace
}  // namespace penstock
