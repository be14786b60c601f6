#include "penstock/data/prepare/read_inputs.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;
using testing::paragraph;

class ReadInputs : public ::testing::Test {
 protected:
  std::vector<Document> read(const std::vector<DataInput>& inputs,
                             const ReadOptions& options = {}) {
    const std::function<void(std::string_view)> show = [this](std::string_view line) {
      lines_.emplace_back(line);
    };
    StageProgress progress(show);
    return read_inputs(inputs, options, texts_, progress);
  }
  testing::TemporaryFolder folder_;
  TextSpool texts_{folder_ / ""};
  std::vector<std::string> lines_;
};

TEST_F(ReadInputs, GivesTheDocumentsInTheOrderOfTheInputs) {
  const std::string b = folder_.write("b.txt", "second"),
                    a = folder_.write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  const std::vector<Document> documents = read({{.path = b}, {.path = a, .domain = "lines"}});
  ASSERT_EQ(documents.size(), 3u);
  EXPECT_EQ(documents[0].text, "second");
  EXPECT_EQ(documents[0].domain, "b");
  EXPECT_EQ(documents[1].text, "one");
  EXPECT_EQ(documents[2].text, "two");
  EXPECT_EQ(documents[2].domain, "lines");
  EXPECT_EQ(lines_, (std::vector<std::string>{"reading " + b, "reading " + a}));
}

TEST_F(ReadInputs, AnInputWithoutTextIsRefused) {
  const std::string some = folder_.write("some.txt", paragraph(1)),
                    none = folder_.write("none.txt", "");
  expect_says(error_of([&] { read({{.path = some}, {.path = none}}); }), {"none.txt", "empty"});
}

TEST_F(ReadInputs, AFileNamedTwiceIsRefused) {
  const std::string path = folder_.write("a.txt", paragraph(1));
  expect_says(error_of([&] {
                read({{.path = path}, {.path = folder_ / "./a.txt"}});
              }),
              {"is named twice"});
}

TEST_F(ReadInputs, AFileOfAFolderThatIsNamedTooIsRefused) {
  const std::string path = folder_.write("in/deep/a.txt", paragraph(1)), in = folder_ / "in";
  folder_.write("in/b.txt", paragraph(2));
  const DataInput all{.path = in}, held_out{.path = path, .split = Split::kValidation};
  for (const std::vector<DataInput>& inputs :
       {std::vector{all, held_out}, std::vector{held_out, all}})
    expect_says(error_of([&] { read(inputs); }),
                {path + "' lies in '" + in, "held-out text would stand in training"});
  // Neither a hidden file nor a folder beside it is read with the folder.
  const DataInput hidden{.path = folder_.write("in/.held/c.txt", paragraph(3))},
      beside{.path = folder_.write("in2/d.txt", paragraph(4))};
  EXPECT_EQ(read({all, hidden, beside}).size(), 4u);
}

TEST_F(ReadInputs, ASeparatorThatNoTextHasIsRefused) {
  const std::vector<DataInput> inputs = {{.path = folder_.write("one.txt", "first<|end|>second")},
                                         {.path = folder_.write("two.txt", "third")}};
  expect_says(error_of([&] { read(inputs, {.separator = "\\n\\n"}); }),
              {"no text holds '\\n\\n'", "options.document_separator", "blank-lines"});
  EXPECT_EQ(read(inputs, {.separator = "<|end|>"}).size(), 3u);
}

}  // namespace
}  // namespace penstock
