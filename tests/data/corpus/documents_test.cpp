#include "penstock/data/corpus/documents.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;

TEST(Documents, JsonlErrorsNameTheLine) {
  const testing::TemporaryFolder folder;
  const auto fails = [&](std::string_view content, std::initializer_list<std::string_view> parts) {
    const std::string path = folder.write("d.jsonl", content);
    expect_says(error_of([&] { read_documents({.path = path}, {}); }), parts);
  };
  fails("{\"text\":\"a\"}\n{\"body\":\"b\",\"id\":1}\n",
        {"d.jsonl:2", "no field 'text'", "options.field", "body, id"});
  fails("{\"text\":1}\n", {"d.jsonl:1", "not a string"});
  fails("{\"text\":\"a\"\n", {"d.jsonl:1", "not a JSON object"});
  fails("{\"text\":\"good\"}\n{\"text\":\"hi \\ud800 x\"}\n",
        {"d.jsonl:2", "the escape \\ud800", "\\ufffd"});
  fails("{\"text\":\"hi \\udc01\"}\n", {"d.jsonl:1", "the escape \\udc01"});
  fails("[\"text\"]\n", {"d.jsonl:1", "not a JSON object"});
  fails("{\"text\":\"a\"}\n{\"text\":\"b\",\"n\":1e999}\n",
        {"d.jsonl:2", "not a JSON object: number overflow", "1e999"});
  const std::string path = folder.write("f.jsonl", "{\"body\":\"b\"}");
  EXPECT_EQ(read_documents({.path = path}, {.field = "body"}).at(0).text, "b");
}

TEST(Documents, AFieldNamesTheDomainOfEachLine) {
  const testing::TemporaryFolder folder;
  const ReadOptions options{.domain_field = "meta.pile_set_name"};
  const std::string good = R"({"text":"a","meta":{"pile_set_name":"Github"}})",
                    path = folder.write(
                        "d.jsonl",
                        good + "\n" + R"({"text":"b","meta":{"pile_set_name":"ArXiv"}})");
  const auto documents = read_documents({.path = path, .domain = "other"}, options);
  ASSERT_EQ(documents.size(), 2U);
  EXPECT_EQ(documents[0].domain, "Github");
  EXPECT_EQ(documents[1].domain, "ArXiv");
  for (const char* bad : {R"({"text":"b"})", R"({"text":"b","meta":"Github"})",
                          R"({"text":"b","meta":{"pile_set_name":1}})",
                          R"({"text":"b","meta":{"pile_set_name":""}})"}) {
    const std::string broken = folder.write("e.jsonl", good + "\n" + bad);
    expect_says(error_of([&] { read_documents({.path = broken}, options); }),
                {"e.jsonl:2", "meta.pile_set_name", "options.domain_field"});
  }
  // A file that is not JSONL gets the domain of its input.
  EXPECT_EQ(read_documents({.path = folder.write("f.txt", "text")}, options).at(0).domain, "f");
}

TEST(Documents, FoldersAreSortedAndLabelledByTheirFirstFolder) {
  const testing::TemporaryFolder folder;
  folder.write("in/z.txt", "direct");
  folder.write("in/code/b.py", "second");
  folder.write("in/code/deep/a.py", "third");
  folder.write("in/code/a.py", "first");
  folder.write("in/.hidden/x.txt", "no");
  folder.write("in/code/.hidden", "no");
  folder.write("in/blank.txt", " \n\n");
  std::string seen;
  for (const auto& document : read_documents({.path = folder / "in/"}, {}))
    seen += document.domain + ":" + std::string(document.text) + " ";
  EXPECT_EQ(seen, "code:first code:second code:third in:direct ");
  for (const auto& document : read_documents({.path = folder / "in", .domain = "mine"}, {}))
    EXPECT_EQ(document.domain, "mine");
  EXPECT_EQ(default_domain(folder / "in/code/a.b.txt.gz"), "a.b");
  EXPECT_EQ(document_files(folder / "in").size(), 5U);  // without hidden files
  EXPECT_EQ(document_files(folder / "in/z.txt").size(), 1U);
}

TEST(Documents, CorporaBelowAFolderAreNoText) {
  const testing::TemporaryFolder folder;
  folder.write("in/a.txt", "text");
  for (const char* name : {"tokens.bin", "corpus.json", "tokenizer.json"})
    folder.write(std::string("in/corpus/") + name, "x");
  folder.write("in/data/corpus.json", "{}");  // without tokens this is no corpus
  const auto documents = read_documents({.path = folder / "in"}, {});
  ASSERT_EQ(documents.size(), 2U);
  EXPECT_EQ(documents[0].text, "text");
  EXPECT_EQ(documents[1].text, "{}");
  EXPECT_EQ(document_files(folder / "in").size(), 2U);
  expect_says(error_of([&] { read_documents({.path = folder / "in/corpus"}, {}); }),
              {"in/corpus", "is a corpus", "no text"});
}

TEST(Documents, ARunOrAModelIsNoText) {
  const testing::TemporaryFolder folder;
  for (const char* name : {"run/config.toml", "run/checkpoints/step-1/config.json",
                           "run/checkpoints/step-1/model.safetensors", "data/config.json"})
    folder.write(name, "{}");
  const auto refusal = [&](const char* name) {
    return error_of([&] { read_documents({.path = folder / name}, {}); });
  };
  expect_says(refusal("run"), {"run' is a run, which holds no text"});
  expect_says(refusal("run/checkpoints/step-1"), {"step-1' is a model, which holds no text"});
  EXPECT_EQ(read_documents({.path = folder / "data"}, {}).size(), 1U);
  // A project of another program that has a configuration and checkpoints too.
  for (const char* name : {"project/config.toml", "project/checkpoints/epoch-1.txt"})
    folder.write(name, "text");
  EXPECT_EQ(read_documents({.path = folder / "project"}, {}).size(), 2U);
  folder.write("project/metrics.jsonl", "{}");
  expect_says(refusal("project"), {"project' is a run, which holds no text"});
}

TEST(Documents, JsonLinesInAFileOfAnotherNameAreRefused) {
  const testing::TemporaryFolder folder;
  const auto read = [&](std::string_view content) {
    return read_documents({.path = folder.write("c4.json", content)}, {});
  };
  // An object with the text alone, and objects with the text in another field.
  for (const char* rows :
       {"{\"text\": \"a\", \"url\": \"u\"}", "\n{\"text\": \"a\"}\r\n{\"text\": \"b\"}\n",
        "{\"body\": \"a\"}\n\n{\"body\": \"b\"}"})
    expect_says(error_of([&] { read(rows); }), {"c4.json", "a JSON object a line", ".jsonl"});
  for (const char* settings : {"{\"name\": \"a\"}\n", "{\n  \"text\": 1\n}\n", "{}", "[1]\n[2]\n"})
    EXPECT_EQ(read(settings).at(0).text, settings);
}

TEST(Documents, SeparatorsCutFiles) {
  const testing::TemporaryFolder folder;
  const auto texts = [&](std::string_view content, const std::string& separator) {
    const std::string path = folder.write("s.txt", content);
    std::vector<std::string> out;
    for (const auto& document : read_documents({.path = path}, {.separator = separator}))
      out.emplace_back(document.text);
    return out;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts("a\nb\n\n \t\nc\r\n\r\nd", "blank-lines"), (Texts{"a\nb\n", "c\r\n", "d"}));
  EXPECT_EQ(texts("a\n<|end|>\nb<|end|>", "<|end|>"), (Texts{"a\n", "b"}));
  EXPECT_EQ(texts("a\n\nb", ""), (Texts{"a\n\nb"}));
  const std::string ended = folder.write("one.txt", "a<|end|>"),
                    plain = folder.write("two.txt", "a");
  EXPECT_TRUE(read_documents({.path = ended}, {.separator = "<|end|>"}).at(0).separated);
  EXPECT_FALSE(read_documents({.path = plain}, {.separator = "<|end|>"}).at(0).separated);
}

TEST(Documents, OfTextThatIsNotUtf8TheErrorSaysFileByteAndRemedy) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.write("latin1.txt", "caf\xe9 au lait");
  expect_says(error_of([&] { read_documents({.path = path}, {}); }),
              {"latin1.txt", "0xe9", "offset 3", "iconv"});
  for (const std::string& text : {std::string("\xff\xfe") + "a", std::string("\xfe\xff") + "a"})
    expect_says(error_of([&] { read_documents({.path = folder.write("utf16.txt", text)}, {}); }),
                {"utf16.txt", "UTF-16", "iconv -f utf-16 -t utf-8"});
}

}  // namespace
}  // namespace penstock
