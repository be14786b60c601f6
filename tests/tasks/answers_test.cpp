// Generated answers are judged as by the harnesses' own code (answer_rules.py).
#include "penstock/tasks/answers.h"

#include <gtest/gtest.h>

#include "penstock/io/config_json.h"
#include "tests/tasks/support.h"

namespace penstock::tasks {
namespace {

AnswerRule rule_of(const std::string& name) { return of_word<AnswerRule>(name).value(); }

TEST(AnswerRules, JudgeAsTheHarnessesDo) {
  const auto fixture =
      read_json(std::string(PENSTOCK_SOURCE_DIR) + "/tests/tasks/answer_rules.json");
  const auto said = fixture.at("said").get<std::vector<std::string>>();
  const auto known = fixture.at("known").get<std::vector<std::vector<std::string>>>();
  int right = 0, cases = 0;
  for (const auto& [name, digits] : fixture.at("right").items())
    for (std::size_t k = 0; k < known.size(); ++k)
      for (std::size_t i = 0; i < said.size(); ++i) {
        const bool judged = is_right_answer(rule_of(name), said[i], known[k]);
        EXPECT_EQ(judged, digits.at(k).get<std::string>().at(i) == '1')
            << name << ": '" << said[i] << "' for '" << known[k].front() << "'";
        right += judged ? 1 : 0;
        ++cases;
      }
  EXPECT_EQ(cases, 4 * 9 * 24);
  EXPECT_GT(right, 100);
  EXPECT_LT(right, cases - 100);
}

}  // namespace
}  // namespace penstock::tasks
