// Generated answers: whether one is among the known ones, by the rules of the harnesses.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tasks {

enum class AnswerRule {
  kExact,             ///< lm-eval: equal without case and ASCII punctuation
  kExactNoArticles,   ///< the same, and without articles that a space follows
  kContainsNq,        ///< OpenCompass: contains a known answer; both cut, stripped of punctuation
                      ///< and articles; of the generated one its first line behind "answer is"
  kContainsTriviaQa,  ///< the same, also behind the last "a:" and "answer:"
};
constexpr std::array<std::string_view, 4> words(AnswerRule) {
  return {"exact", "exact-no-articles", "contains-nq", "contains-triviaqa"};
}

/// Whether the generated text counts as one of the known answers.
bool is_right_answer(AnswerRule rule, std::string_view generated,
                     const std::vector<std::string>& known);

}  // namespace penstock::tasks
