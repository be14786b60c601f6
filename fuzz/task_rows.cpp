// Fuzzes a template and rows, with a NUL byte between them. The harness fills the template from
// each row, and makes the rows into items of tasks of every kind, with every preparation and with
// few-shot examples. It does not fuzz a task's own file, which is TOML and read by toml++.
#include <array>

#include "fuzz/input.h"
#include "fuzz/memory_file.h"
#include "penstock/io/toml.h"
#include "penstock/tasks/fewshot.h"
#include "penstock/tasks/items.h"
#include "penstock/tasks/prepare.h"

namespace {

using namespace penstock;

tasks::Task parse(const std::string& top, const std::string& form) {
  return tasks::parse_task(parse_toml("name = \"t\"\n" + top + "\n[[form]]\n" + form, "t.toml"),
                           "t.toml");
}

const std::array<tasks::Task, 3>& some_tasks() {
  static const std::array<tasks::Task, 3> out = {
      parse("metrics = [\"acc_norm\"]\nfewshot.without_itself = true",
            "has = [\"question\"]\ncontext = \"{{question}}\"\nchoices = [\"{{choices.text}}\"]\n"
            "gold = \"{{answerKey | index(choices.label)}}\""),
      parse("metrics = [\"acc\"]\nkind = \"continuation\"",
            "has = [\"text\"]\ncontext = \"{{text | before_last(' ')}}\"\n"
            "continuation = \" {{text | after_last(' ')}}\""),
      parse(
          "metrics = [\"exact_match\"]\nkind = \"generation\"\nanswer_rule = \"contains-triviaqa\"",
          "has = [\"question\"]\ncontext = \"{{question}}\"\nanswers = [\"{{answer}}\"]")};
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parts = fuzz::parts(data, size, std::string_view("\0", 1), 2);
  const fuzz::MemoryFile file(parts[1]);
  fuzz::expect_answer([&] {
    const auto rows = tasks::read_rows(file.path());
    for (const tasks::SourceRow& source : rows) {
      fuzz::expect_answer([&] { tasks::Template(parts[0], "t").value(source.row); });
      for (const char* name : {"race-problems", "race-problems-2.0", "wsc-passage"})
        fuzz::expect_answer([&] { tasks::prepared(name, source.row); });
    }
    for (const tasks::Task& task : some_tasks())
      fuzz::expect_answer([&] {
        tasks::Items items = tasks::make_items(task, rows);
        fuzz::expect_answer([&] {
          if (task.fewshot)
            tasks::add_examples(task, tasks::make_items(task, rows).items, {2}, items);
        });
        for (const tasks::Item& item : items.items)
          for (const std::string& answer : item.answers)
            tasks::is_right_answer(task.answer_rule, item.requests.front().context, {answer});
      });
  });
  return 0;
}
