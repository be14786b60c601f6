// Kept answers: which answers are reused, and the errors for damaged files and files of other
// requests.
#include "penstock/tasks/answer_log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "penstock/base/checksum.h"
#include "tests/base/temp_directory.h"
#include "tests/tasks/support.h"

namespace penstock::tasks {
namespace {

const std::vector<AskedTask> kAsked = {
    {.model = "m", .task = "piqa@1.0", .protocol = "lm-eval", .requests = "r"},
    {.model = "m", .task = "nq_open@4.0", .protocol = "lm-eval", .requests = "s"}};

class AnswerLogs : public ::testing::Test {
 protected:
  /// A log with three answers, closed.
  void SetUp() override {
    AnswerLog log(path_, kAsked);
    log.add(0, 7, {.scores = {{.loglikelihood = -1.0 / 3, .greedy = true}, {-2e-300, false}}});
    log.sync();
    log.add(1, 0, {.generated = "a\n\"b\" é"});
    log.add(1, 2, {.generated = ""});
    log.sync();
  }
  std::string text() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& text) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << text;
  }
  std::string error(const std::vector<AskedTask>& asked = kAsked) const {
    return error_of([&] { AnswerLog(path_, asked); });
  }
  std::string error_of_other(std::string AskedTask::*field) const {
    std::vector<AskedTask> other = kAsked;
    other[1].*field = "other";
    return error(other);
  }

  testing::TempDirectory folder_;
  std::string path_ = folder_.path("items.part");
};

TEST_F(AnswerLogs, GiveAnswersBackToTheBit) {
  const AnswerLog log(path_, kAsked);
  EXPECT_EQ(log.taken_up(), 3u);
  const Answer* scores = log.find(0, 7);
  ASSERT_TRUE(scores && scores->scores.size() == 2);
  EXPECT_EQ(scores->scores[0].loglikelihood, -1.0 / 3);
  EXPECT_TRUE(scores->scores[0].greedy);
  EXPECT_EQ(scores->scores[1].loglikelihood, -2e-300);
  EXPECT_FALSE(scores->scores[1].greedy);
  EXPECT_EQ(log.find(1, 0)->generated, "a\n\"b\" é");
  EXPECT_EQ(log.find(0, 0), nullptr);
}

TEST_F(AnswerLogs, DropALineThatWasCutAndGoOnBehindTheOthers) {
  const std::string whole = text();
  const std::size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t cut = last; cut < whole.size(); ++cut) {
    write(whole.substr(0, cut));
    {
      AnswerLog log(path_, kAsked);
      ASSERT_EQ(log.taken_up(), 2u) << cut;
      log.add(1, 2, {.generated = ""});
      log.sync();
    }
    ASSERT_EQ(text(), whole);
  }
}

TEST_F(AnswerLogs, RefuseWhatIsOfAnotherEvaluation) {
  const std::string begin = "'" + path_ + "' keeps the answers of another evaluation: ",
                    end = "; finish that one, remove the file, or write to another";
  EXPECT_EQ(error_of_other(&AskedTask::model),
            begin + "another model, or another number of experts per token" + end);
  EXPECT_EQ(error_of_other(&AskedTask::task), begin + "another task" + end);
  EXPECT_EQ(error_of_other(&AskedTask::protocol), begin + "another protocol" + end);
  EXPECT_EQ(
      error_of_other(&AskedTask::requests),
      begin + "other requests of nq_open@4.0 (data, window, tokenizer or few-shot examples)" + end);
  EXPECT_EQ(error({kAsked[0]}), begin + "other tasks or models" + end);
  EXPECT_EQ(AnswerLog(path_, kAsked).taken_up(), 3u);
}

// A byte changed, removed or inserted anywhere is detected, except at the end, where a line may be
// cut.
TEST_F(AnswerLogs, RefuseDamage) {
  const std::string whole = text();
  for (std::size_t at = 0; at + 1 < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] ^= 4;
    write(changed);
    EXPECT_NE(error(), "") << at;
    write(std::string(whole).erase(at, 1));
    EXPECT_NE(error(), "") << at;
    write(std::string(whole).insert(at, 1, '0'));
    EXPECT_NE(error(), "") << at;
  }
  write(whole + "{}\n");
  EXPECT_EQ(error(), "'" + path_ +
                         "', line 5: is damaged, or no line of kept answers; remove the file to "
                         "begin anew");
  write("my own notes");
  EXPECT_EQ(error(), "'" + path_ +
                         "' is there already and keeps no answers; remove it, or write to another");
  EXPECT_EQ(text(), "my own notes");
}

// Lines with correct checksums must still hold valid answers.
TEST_F(AnswerLogs, RefuseLinesThatAreNoAnswers) {
  const std::string whole = text();
  for (const char* line :
       {"{}", "{\"asked\": 0}", "{\"asked\": 0, \"item\": null}", "{\"asked\": [], \"item\": 1}",
        "{\"asked\": 0, \"item\": 1, \"scores\": [[1]]}",
        "{\"asked\": 0, \"item\": 1, \"scores\": [[null, true]]}",
        "{\"asked\": 0, \"item\": 1, \"scores\": [\"ab\"]}",
        "{\"asked\": 0, \"item\": 1, \"scores\": 3}",
        "{\"asked\": 0, \"item\": 1, \"generated\": 3}"}) {
    write(whole + fmt::format("{:016x} {}\n", xxh64(bytes_of(line)), line));
    EXPECT_EQ(error().substr(0, path_.size() + 26), "'" + path_ + "', line 5: is no answer (")
        << line;
  }
  for (const std::string& line : {std::string("3"), std::string("["), std::string(100000, '[')}) {
    write(whole + fmt::format("{:016x} {}\n", xxh64(bytes_of(line)), line));
    EXPECT_EQ(error().substr(0, path_.size() + 24), "'" + path_ + "', line 5: is damaged, ");
  }
}

TEST_F(AnswerLogs, BeginAnewWhereNothingWasAnswered) {
  const std::string head = text().substr(0, text().find('\n') + 1);
  for (const std::string& nothing : {std::string(), head.substr(0, 20), head}) {
    write(nothing);
    EXPECT_EQ(AnswerLog(path_, kAsked).taken_up(), 0u);
    EXPECT_EQ(text(), head);
  }
  AnswerLog other(path_, {kAsked[0]});
  EXPECT_EQ(other.taken_up(), 0u);
  EXPECT_TRUE(error().find("another process") != std::string::npos) << error();
  other.remove();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace penstock::tasks
