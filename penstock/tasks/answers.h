// Generated answers: whether one is among the known ones, by the rules of the harnesses.
#pragma once

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

/// The rule of the name, as task files have it. Throws Error that opens with `origin`.
AnswerRule parse_answer_rule(const std::string& name, const std::string& origin);

/// Whether the generated text counts as one of the known answers.
bool is_right_answer(AnswerRule rule, std::string_view generated,
                     const std::vector<std::string>& known);

}  // namespace penstock::tasks
