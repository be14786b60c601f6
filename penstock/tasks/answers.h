// Decides whether a generated answer is one of the known answers, by the rules of the harnesses.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::tasks {

enum class AnswerRule {
  kExact,             ///< lm-eval: equal, ignoring case and ASCII punctuation
  kExactNoArticles,   ///< the same, also ignoring articles followed by a space
  kContainsNq,        ///< OpenCompass: contains a known answer, without punctuation and articles;
                      ///< of the generated text only the first line counts, after "answer is"
  kContainsTriviaQa,  ///< the same, also after the last "a:" and "answer:"
};
constexpr std::array<std::string_view, 4> words(AnswerRule) {
  return {"exact", "exact-no-articles", "contains-nq", "contains-triviaqa"};
}

/// Whether the generated text counts as one of the known answers.
bool is_right_answer(AnswerRule rule, std::string_view generated,
                     const std::vector<std::string>& known);

}  // namespace penstock::tasks
