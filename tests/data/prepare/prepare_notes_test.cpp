// Inputs that would give another corpus than the user expects: they are reported or refused.
#include "penstock/data/prepare/prepare_notes.h"

#include <gtest/gtest.h>

#include "penstock/data/prepare/prepare.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;
using testing::paragraph;

class PrepareNotes : public ::testing::Test {
 protected:
  PrepareOptions of(std::vector<DataInput> inputs) const {
    return {.inputs = std::move(inputs), .out = folder_ / "corpus"};
  }
  std::string notes_of(const PrepareOptions& options) const {
    std::string out;
    for (const auto& note : prepare_corpus(options).notes) out += note + "\n";
    return out;
  }
  testing::TemporaryFolder folder_;
};

TEST_F(PrepareNotes, NameTheOptionThatCutsAFileIntoDocuments) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += paragraph(i) + "\n\n";
  const std::string notes = notes_of(of({{.path = folder_.write("all.txt", text)}}));
  testing::expect_says(
      notes, {"validation and test are its last parts", "--document-separator blank-lines"});
  const Document one{.text = "a\nb\n"};
  const std::vector<const Document*> documents{&one};
  EXPECT_EQ(cut_documents_note("a", documents, true).find("blank"), std::string::npos);
}

TEST_F(PrepareNotes, SayThatACorpusIsReplaced) {
  const PrepareOptions options = of({{.path = folder_.write("a.txt", paragraph(1))}});
  EXPECT_EQ(notes_of(options).find("replaced"), std::string::npos);
  testing::expect_says(notes_of(options), {"is replaced"});
}

TEST_F(PrepareNotes, SayWhichSplitIsEmpty) {
  const std::string notes = notes_of(of({{.path = folder_.write("byte.txt", "a")}}));
  testing::expect_says(notes, {"the validation split is empty"});
  EXPECT_TRUE(empty_split_notes({1, 0, 0}, {5, 0, 0}).empty());
}

TEST_F(PrepareNotes, FilesThatAreNoTextOrNotThatTextAreRefused) {
  expect_says(error_of([&] {
                prepare_corpus(of({{.path = folder_.write("l.json", "[{\"text\": \"a\"}]")}}));
              }),
              {"a line to a .jsonl file"});
  expect_says(
      error_of([&] { prepare_corpus(of({{.path = folder_.write("t.parquet", "PAR1abcPAR1")}})); }),
      {"is a Parquet file"});
  // Other JSON files are read as text.
  EXPECT_NO_THROW(prepare_corpus(of({{.path = folder_.write("o.json", "{\"a\": [1, 2]}")}})));
}

TEST_F(PrepareNotes, AByteOrderMarkIsNoText) {
  PrepareOptions options = of({{.path = folder_.write("bom.txt", "\xEF\xBB\xBFhello")}});
  options.split = "contiguous:1,0,0";
  options.end_of_document = false;
  EXPECT_EQ(prepare_corpus(options).domains.at(0).counts.at(0).tokens, 5);
}

}  // namespace
}  // namespace penstock
