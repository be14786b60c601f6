#include "penstock/tasks/answers.h"

#include <algorithm>

#include "penstock/data/text/unicode.h"
#include "penstock/tasks/text.h"

namespace penstock::tasks {
namespace {

constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

std::string without_ascii_punctuation(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (kPunctuation.find(c) == kPunctuation.npos) out += c;
  return out;
}

/// Calls visit(rest, begins_word) for each character: the text from the character on, and whether
/// the character begins a word.
template <class Visit>
void for_each_character(std::string_view text, Visit visit) {
  for (bool in_word = false; !text.empty();) {
    const std::string_view character = text.substr(0, character_bytes(text));
    const bool word = is_letter_or_digit(character);
    visit(text, word && !in_word);
    in_word = word;
    text.remove_prefix(character.size());
  }
}

/// The text without articles that begin a word. The space after an article is removed too.
std::string without_spaced_articles(std::string_view text) {
  constexpr std::string_view articles[] = {"The ", "the ", "An ", "A ", "a ", "an "};
  std::string out;
  std::size_t skipped = 0;
  for_each_character(text, [&](std::string_view rest, bool begins_word) {
    const std::size_t bytes = character_bytes(rest);
    if (skipped > 0) {
      skipped -= bytes;
      return;
    }
    if (begins_word)
      for (const std::string_view article : articles)
        if (rest.starts_with(article)) {
          skipped = article.size() - bytes;
          return;
        }
    out += rest.substr(0, bytes);
  });
  return out;
}

/// OpenCompass's general form of an answer: the text up to the first newline, period or comma, with
/// only letters, digits and single spaces, and without articles.
std::string general_form(std::string_view text) {
  text = text.substr(0, text.find_first_of("\n.,"));
  std::string kept;
  for_each_character(text, [&](std::string_view rest, bool) {
    const std::string_view character = rest.substr(0, character_bytes(rest));
    if (is_letter_or_digit(character) || left_stripped(character).empty()) kept += character;
  });
  std::string out;
  for (const std::string& word : words(kept)) {
    const std::string lower = lowered(word);
    if (lower == "a" || lower == "an" || lower == "the") continue;
    out += (out.empty() ? "" : " ") + word;
  }
  return out;
}

std::string_view behind_last(std::string_view text, std::string_view mark) {
  const std::size_t at = text.rfind(mark);
  return at == text.npos ? text : text.substr(at + mark.size());
}

bool is_equal(std::string_view generated, const std::vector<std::string>& known, bool articles) {
  const auto form = [&](std::string_view text) {
    return without_ascii_punctuation(
        lowered(articles ? std::string(text) : without_spaced_articles(text)));
  };
  const std::string mine = form(left_stripped(right_stripped(generated)));
  return std::ranges::any_of(known, [&](const std::string& one) { return form(one) == mine; });
}

bool contains(std::string_view generated, const std::vector<std::string>& known, bool trivia) {
  std::string_view line = left_stripped(right_stripped(generated));
  const std::string lower = lowered(line.substr(0, line.find('\n')));
  std::string_view answer = behind_last(lower, "answer is");
  if (trivia) answer = behind_last(behind_last(answer, "a:"), "answer:");
  const std::string mine = general_form(left_stripped(right_stripped(answer)));
  return std::ranges::any_of(known, [&](const std::string& one) {
    return mine.find(lowered(general_form(one))) != mine.npos;
  });
}

}  // namespace

bool is_right_answer(AnswerRule rule, std::string_view generated,
                     const std::vector<std::string>& known) {
  if (rule == AnswerRule::kExact || rule == AnswerRule::kExactNoArticles)
    return is_equal(generated, known, rule == AnswerRule::kExact);
  return contains(generated, known, rule == AnswerRule::kContainsTriviaQa);
}

}  // namespace penstock::tasks
