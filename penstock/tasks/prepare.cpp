#include "penstock/tasks/prepare.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/data/text/unicode.h"
#include "penstock/tasks/python_literal.h"
#include "penstock/tasks/text.h"

namespace penstock::tasks {
namespace {

std::string text_at(const Row& row, const std::string& path) {
  const Row value = at_path(row, split_path(path));
  PENSTOCK_CHECK(value.is_string(), "field '", path, "' is no text");
  return value.get<std::string>();
}

/// The end of RACE's cloze questions.
constexpr std::string_view kBlank = "  _  .";
constexpr std::size_t kBlankKept = 5;  ///< length of kBlank without its first space

/// An earlier question of the article with its answer, as the prompt shows it.
std::string answered(const Row& problem, bool stem_is_lost) {
  const std::string question = text_at(problem, "question"), letter = text_at(problem, "answer");
  PENSTOCK_CHECK(letter.size() == 1 && letter[0] >= 'A' && letter[0] <= 'D',
                 "the answer of a problem is '", letter, "', not A, B, C or D");
  const std::string answer =
      text_at(problem, concat("options.", static_cast<int>(letter[0] - 'A')));
  if (!question.ends_with(kBlank)) return "Question: " + question + "\nAnswer: " + answer + "\n";
  const std::size_t stem = question.size() - kBlankKept;
  return (stem_is_lost ? question.substr(stem) : question.substr(0, stem)) + answer + "\n";
}

Row race_problems(Row row, bool stem_is_lost) {
  Row problems = at_path(row, {"problems"});
  if (problems.is_string()) problems = parse_python_literal(problems.get<std::string>());
  PENSTOCK_CHECK(problems.is_array() && !problems.empty(), "field 'problems' lists no questions");
  std::string before;
  for (std::size_t i = 0; i + 1 < problems.size(); ++i)
    before += answered(problems[i], stem_is_lost);
  row["before"] = before;
  for (const char* field : {"question", "options", "answer"})
    row[field] = at_path(problems.back(), {field});
  return row;
}

/// Removes spaces before punctuation and within quotes and parentheses.
std::string detokenized(std::string text) {
  for (const auto& [from, to] : {std::pair<std::string_view, std::string_view>{" n't", "n't"},
                                 {" )", ")"},
                                 {"( ", "("},
                                 {"\" ", "\""},
                                 {" \"", "\""}})
    text = replaced(text, from, to);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (text[i] != ' ' || (next != '\'' && next != '.' && next != ',')) out += text[i];
  }
  return out;
}

/// The index of a span counts words, but the text behind the span is cut by characters, as the
/// harness does. In a text with double spaces before the span the cut is at the wrong character, as
/// in the harness.
Row wsc_passage(Row row) {
  const std::string text = text_at(row, "text"), span = text_at(row, "span2_text");
  const Row index = at_path(row, {"span2_index"});
  PENSTOCK_CHECK(index.is_number_unsigned(), "field 'span2_index' is no place of a word");
  const std::vector<std::string> all = words(text);
  std::string before;
  for (std::size_t i = 0; i < std::min(all.size(), index.get<std::size_t>()); ++i)
    before += (i > 0 ? " " : "") + all[i];
  const std::string_view after =
      without_first(text, character_count(before) + character_count(span) + 1);
  row["passage"] = detokenized(concat(before, " *", span, "*", after));
  return row;
}

struct Preparation {
  std::string_view name;
  Row (*apply)(Row);
};

constexpr Preparation kPreparations[] = {
    {"race-problems", [](Row row) { return race_problems(std::move(row), false); }},
    {"race-problems-2.0", [](Row row) { return race_problems(std::move(row), true); }},
    {"wsc-passage", wsc_passage}};

/// The preparation with the name, or null.
const Preparation* find_preparation(std::string_view name) {
  const auto* const found = std::ranges::find(kPreparations, name, &Preparation::name);
  return found == std::ranges::end(kPreparations) ? nullptr : found;
}

}  // namespace

Row prepared(const std::string& preparation, Row row) {
  if (preparation.empty()) return row;
  const Preparation* const found = find_preparation(preparation);
  PENSTOCK_ASSERT(found);
  return found->apply(std::move(row));
}

void check_preparation(const std::string& name, const std::string& origin) {
  if (find_preparation(name)) return;
  fail(origin, ": there is no preparation '", name, "'; there are ",
       joined(kPreparations, ", ", &Preparation::name));
}

}  // namespace penstock::tasks
