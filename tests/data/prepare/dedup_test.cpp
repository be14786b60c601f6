#include "penstock/data/prepare/dedup.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::paragraph;

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
       "a"},                // a copy in capitals on one line, and a short paragraph
      {paragraph(2), "b"},  // nothing new: the document is removed
      {licence + paragraph(4), "b"},
      {again + paragraph(5), "b"},  // another year and other comment signs
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
  // A quarter of each text is common to both.
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

}  // namespace
}  // namespace penstock
