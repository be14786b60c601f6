// Task files, rows and items: their contents, and the error of each mistake.
#include "penstock/tasks/task.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "penstock/base/fields.h"
#include "penstock/data/fetch/public_datasets.h"
#include "penstock/io/toml.h"
#include "penstock/tasks/data_sets.h"
#include "penstock/tasks/embedded_files.h"
#include "tests/base/temp_directory.h"
#include "tests/tasks/support.h"

namespace penstock::tasks {
namespace {

const std::string kColours = R"(
name = "colours"
metrics = ["acc"]
files = ["colours.jsonl"]
[[form]]
has = ["thing", "options"]
context = "The colour of {{thing}} is"
choices = ["{{options}}"]
gold = "{{right}}"
)";

Task colours(const std::string& change_from = {}, const std::string& to = {}) {
  std::string text = kColours;
  if (!change_from.empty()) text.replace(text.find(change_from), change_from.size(), to);
  return parse_task(parse_toml(text, "c.toml"), "c.toml");
}

std::string item_error(const std::string& row) {
  return error_of([&] { make_items(colours(), rows_of({row})); });
}

TEST(Tasks, EveryFileOfTheProgramIsReadAndFoundByItsName) {
  std::size_t count = 0;
  for (const TaskProtocol protocol : kTaskProtocols)
    for (const Task& task : all_tasks(protocol)) {
      ++count;
      EXPECT_EQ(word(task.protocol), word(protocol)) << task.origin;
      EXPECT_FALSE(task.source.empty()) << task.origin;
      EXPECT_FALSE(task.files.empty()) << task.origin;
      EXPECT_EQ(find_task(task.name + "@" + task.version, protocol).origin, task.origin);
    }
  EXPECT_EQ(count + 1, embedded_files().size());  // one more file: groups.toml
  for (const TaskProtocol protocol : kTaskProtocols)
    for (const Group& group : all_groups(protocol))
      EXPECT_EQ(find_tasks({group.name}, protocol).size(), group.tasks.size()) << group.name;
}

TEST(Tasks, NameDataSetsThatAreKnownAndHoldTheirFiles) {
  for (const TaskProtocol protocol : kTaskProtocols)
    for (const Task& task : all_tasks(protocol)) {
      std::set<std::string> given;
      for (const std::string& name : task.data_sets) {
        const PublicDataset& set = public_dataset(name);
        given.insert(std::string(set.file));
        for (const auto member : set.members) given.insert(std::string(member));
      }
      const auto is_given = [&](const std::string& file) { return given.contains(file); };
      if (given.empty()) continue;
      EXPECT_TRUE(std::ranges::any_of(task.files, is_given)) << task.origin;
      if (!task.fewshot || task.fewshot->files.empty()) continue;
      EXPECT_TRUE(std::ranges::any_of(task.fewshot->files, is_given)) << task.origin;
    }
  EXPECT_EQ(data_sets_of("hellaswag"),
            (std::vector<std::string>{"hellaswag-val", "hellaswag-train"}));
  EXPECT_EQ(data_sets_of("text8"), std::vector<std::string>{"text8"});
  EXPECT_EQ(data_sets_of("remoe").size(), 7u);  // arc counts once; hellaswag has two files
  EXPECT_EQ(error_of([] { data_sets_of("winograd"); }),
            "no data set, task or group 'winograd' is known; did you mean 'winogrande'?");
}

TEST(Tasks, AreFoundByNameVersionAndGroup) {
  EXPECT_EQ(find_task("race", TaskProtocol::kLmEval).version, "3.0");
  EXPECT_EQ(find_task("race@2.0", TaskProtocol::kLmEval).version, "2.0");
  const auto remoe = find_tasks({"arc_easy", "remoe", "arc_easy"}, TaskProtocol::kLmEval);
  ASSERT_EQ(remoe.size(), 7u);
  EXPECT_EQ(remoe[0].name, "arc_easy");
  EXPECT_EQ(remoe[6].version, "2.0");
  EXPECT_EQ(error_of([] { find_task("arc_esy", TaskProtocol::kLmEval); }),
            "there is no task 'arc_esy'; did you mean 'arc_easy'?");
  EXPECT_EQ(error_of([] { find_task("race@9", TaskProtocol::kLmEval); }),
            "task race has no version '9' here; race is 3.0");
  EXPECT_EQ(error_of([] { find_tasks({"remoe"}, TaskProtocol::kOpenCompass); }),
            "protocol opencompass has no group 'remoe' here; protocol lm-eval has");
  EXPECT_EQ(error_of([] { find_task("lambada_openai", TaskProtocol::kOpenCompass); }),
            "protocol opencompass has no task 'lambada_openai' here; protocol lm-eval has");
}

TEST(Tasks, MistakesInAFileNameItsLine) {
  EXPECT_EQ(error_of([] { colours("gold =", "golden ="); }).substr(0, 30),
            "c.toml:9: form.golden: unknown");
  EXPECT_EQ(error_of([] { colours("{{right}}", "{{right | minus}}"); }),
            "c.toml:9: gold: the filter 'minus' has 0 arguments: minus(N): the number less N");
  EXPECT_EQ(error_of([] { colours("[\"acc\"]", "[\"f1\"]"); }),
            "c.toml:3: metrics = 'f1' is not one of: acc | acc_norm | acc_bytes | perplexity | "
            "exact_match");
  EXPECT_EQ(error_of([] { colours("gold = \"{{right}}\"", ""); }),
            "c.toml:5: gold = \"...\" is missing: the right choice's number, from 0");
  EXPECT_EQ(error_of([] { colours("files", "kind = \"continuation\"\nfiles"); }),
            "c.toml:6: only a multiple-choice task has choices");
  EXPECT_EQ(error_of([] { colours("name = \"colours\"", "name = \"a,b\""); }).substr(0, 22),
            "c.toml: name = \"a,b\" m");
  EXPECT_EQ(error_of([] { colours("has =", "prepare = \"magic\"\nhas ="); }).substr(0, 46),
            "c.toml:6: prepare: there is no preparation 'ma");
}

TEST(Tasks, KeysThatAnotherKindReadsAreRefused) {
  for (const char* key : {"answer_rule = \"exact\"", "until = [\"x\"]", "max_tokens = 5"}) {
    const std::string name(key, std::string(key).find(' '));
    EXPECT_EQ(error_of([&] { colours("files", concat(key, "\nfiles")); }),
              concat("c.toml:4: ", name,
                     " has no effect: only a generation task has the model write an answer; leave "
                     "it out, or set kind = \"generation\""));
  }
  EXPECT_EQ(error_of([] {
              parse_task(parse_toml("name = \"a\"\nkind = \"generation\"\nscore = \"rest\"\n"
                                    "metrics = [\"exact_match\"]\n[[form]]\nhas = [\"q\"]\n",
                                    "c.toml"),
                         "c.toml");
            }),
            "c.toml:3: score has no effect: a generation task compares the model's own words with "
            "the known answers; leave it out");
}

TEST(Items, AreContextsAndContinuationsWithTheAnswer) {
  const auto made = make_items(
      colours(), rows_of({R"({"thing": "grass", "options": ["green", "rosé"], "right": "0"})"}));
  ASSERT_EQ(made.items.size(), 1u);
  const Item& item = made.items[0];
  EXPECT_EQ(item.requests, (std::vector<TextRequest>{{"The colour of grass is", " green"},
                                                     {"The colour of grass is", " rosé"}}));
  EXPECT_EQ(item.gold, 0);
  EXPECT_EQ(item.characters, (std::vector<double>{5, 4}));
  EXPECT_EQ(item.bytes, (std::vector<double>{5, 5}));
}

TEST(Items, SayWhatIsWrongWithARow) {
  EXPECT_EQ(item_error(R"({"thing": "grass", "options": ["green", "red"]})"),
            "rows.jsonl:1: c.toml:9: gold: there is no field 'right'; there are: thing, options");
  EXPECT_EQ(item_error(R"({"thing": "grass"})"),
            "rows.jsonl:1: the row fits no form of task colours: it has {thing}, and a form has "
            "{thing, options}");
  EXPECT_EQ(item_error(R"({"thing": "grass", "options": ["green", "red"], "right": 2})"),
            "rows.jsonl:1: the answer 2 is none of the choices 0 to 1");
  EXPECT_EQ(item_error(R"({"thing": "grass", "options": ["green", "red"], "right": -1})"),
            "rows.jsonl:1: the answer -1 is none of the choices 0 to 1");
  EXPECT_EQ(item_error(R"({"thing": "grass", "options": ["green", "red"], "right": ""})"),
            "rows.jsonl:1: the answer is empty: this split has no labels");
  EXPECT_EQ(item_error(R"({"thing": "grass", "options": ["green", ""], "right": 0})"),
            "rows.jsonl:1: choice 2 is empty; there is nothing to score");
  EXPECT_EQ(item_error(R"({"thing": "grass", "options": ["green"], "right": 0})"),
            "rows.jsonl:1: there are 1 choices; a choice needs at least two");
  EXPECT_EQ(item_error(R"({"thing": 1.5, "options": ["green", "red"], "right": 0})"),
            "rows.jsonl:1: c.toml:7: context: a text is wanted, and the value is 1.5");
}

TEST(Items, WhereLeavesRowsOut) {
  const Task task = colours("has =", "where = [\"{{thing | is('grass')}}\"]\nhas =");
  const auto made =
      make_items(task,
                 rows_of({R"({"thing": "sky", "options": ["green", "red"], "right": 0})",
                          R"({"thing": "grass", "options": ["green", "red"], "right": 1})",
                          R"({"thing": "grass", "options": ["a", "b"], "right": 1})"}),
                 {.limit = 1});
  EXPECT_EQ(made.items.size(), 1u);
  EXPECT_EQ(made.left_out, 1u);
  EXPECT_EQ(made.items[0].where, "rows.jsonl:2");
  EXPECT_EQ(error_of([&] { make_items(task, rows_of({R"({"thing": "sky", "options": []})"})); }),
            "task colours: none of the 1 rows is an item of it");
}

class RowFiles : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const auto path = directory_.path() / name;
    std::ofstream(path) << text;
    return path.string();
  }
  testing::TempDirectory directory_;
};

TEST_F(RowFiles, AreLinesOrOneListWithLabelsBeside) {
  const auto lines = read_rows(write("a.jsonl", "{\"x\": 1}\r\n\n{\"x\": 2}"));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].row.at("x"), 2);
  EXPECT_TRUE(lines[1].where.ends_with("a.jsonl:3"));
  const auto list = read_rows(write("b.json", "[{\"x\": 1},\n {\"x\": 5}]"));
  EXPECT_EQ(list.at(1).row.at("x"), 5);
  EXPECT_TRUE(list[1].where.ends_with("b.json, item 2"));
  const std::string labels = write("a-labels.lst", "1\n0\n");
  Task task = colours();
  task.labels = "{stem}-labels.lst";
  EXPECT_EQ(labels_beside(task, directory_.path() / "a.jsonl"), labels);
  EXPECT_EQ(labels_beside(task, directory_.path() / "b.json"), "");
  EXPECT_EQ(read_rows(directory_.path() / "a.jsonl", labels)[0].row.at("label"), "1");
}

TEST_F(RowFiles, MistakesNameFileAndLine) {
  const auto error = [&](const std::string& text) {
    const std::string path = write("a.jsonl", text);
    return error_of([&] { read_rows(path); }).substr(directory_.path().string().size() + 1);
  };
  EXPECT_EQ(error("{\"x\": 1}\n{\"x\": }\n").substr(0, 30), "a.jsonl:2: this is no JSON (pa");
  EXPECT_EQ(error("{\"x\": 1}\n3\n"), "a.jsonl:2: is no JSON object");
  EXPECT_EQ(error("{\"x\": " + std::string(100000, '[')).substr(0, 51),
            "a.jsonl:1: its lists and tables are nested deeper t");
  EXPECT_EQ(error("{\"x\": 7777E7775}").substr(0, 29), "a.jsonl:1: this is no JSON (n");
  EXPECT_EQ(error("\n"), "a.jsonl: holds no rows");
  EXPECT_EQ(error("[1]"), "a.jsonl, item 1: is no JSON object");
  const std::string rows = write("a.jsonl", "{\"x\": 1}\n"), labels = write("l.lst", "1\n0\n");
  EXPECT_EQ(error_of([&] { read_rows(rows, labels); }),
            labels + ": has 2 labels for 1 rows: they belong to another file");
  EXPECT_EQ(error_of([&] { find_data(colours(), directory_.path()); }),
            "task colours: its data is not in " + directory_.path().string() +
                "; looked for colours.jsonl (each also with .gz)");
}

TEST(Preparations, SayWhatTheyCannotRead) {
  const Task race = find_task("race", TaskProtocol::kLmEval);
  const auto error = [&](const std::string& problems) {
    const Row row{{"article", "A."}, {"problems", problems}};
    return error_of([&] { make_items(race, rows_of({row.dump()})); });
  };
  EXPECT_EQ(error("[{'question': "),
            "rows.jsonl:1: this is no list in Python's notation: the value ends too early, at "
            "character 14");
  EXPECT_EQ(error("[]"), "rows.jsonl:1: field 'problems' lists no questions");
  EXPECT_EQ(error("[{'question': 'q', 'answer': 'E', 'options': ['a', 'b', 'c', 'd']}]"),
            "rows.jsonl:1: tasks/lm-eval/race.toml:19: gold: \"E\" is none of \"ABCD\"");
}

}  // namespace
}  // namespace penstock::tasks
