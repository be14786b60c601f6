// The figures that a run's log gives of its processes, and their page.
#include "penstock/study/runs/rank_figures.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "penstock/base/error.h"
#include "penstock/report/report.h"
#include "tests/study/fixture.h"

namespace penstock::study {
namespace {

using testing::FakeRun;
using testing::read_text;
using testing::TemporaryDirectory;
using testing::write_fake_run;

/// Rewrites a fake run's log as if `ranks` processes had trained. The third is the slowest in two
/// of three steps.
void log_ranks(const std::string& run, std::size_t ranks, bool listed) {
  std::istringstream lines(read_text(run + "/metrics.jsonl"));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    nlohmann::json step = nlohmann::json::parse(line);
    const auto number = step["step"].get<std::int64_t>();
    if (number > 0) {
      std::vector<double> seconds(ranks, 1.0);
      const std::size_t slowest = number % 3 == 0 ? 0 : 2;
      seconds[slowest] = 3;
      step.update({{"ranks", ranks}, {"step_seconds", 4}, {"communication_seconds", 1}});
      step["rank_seconds"] = {
          {"mean", 1 + 2.0 / static_cast<double>(ranks)}, {"max", 3}, {"rank", slowest}};
      step["rank_load"] = {{"mean", 1}, {"max", 1.25}, {"rank", 1}};
      if (listed) {
        step["rank_seconds"]["by_rank"] = seconds;
        step["rank_load"]["by_rank"] = {0.75, 1.25};
      }
    }
    text += step.dump() + "\n";
  }
  testing::write_text(run + "/metrics.jsonl", text);
}

TEST(RankFigures, AreOnThePageOfARunOfSeveralProcesses) {
  TemporaryDirectory folder;
  const auto page_of = [&](std::size_t ranks, bool listed) {
    write_fake_run(folder.path("run"), FakeRun{.method = "topk"});
    if (ranks > 1) log_ranks(folder.path("run"), ranks, listed);
    report::write_run_report(folder.path("run"));
    return read_text(folder.path("run/report.html"));
  };
  const auto has = [](const std::string& page, const std::string& text) {
    return page.find(text) != std::string::npos;
  };
  const std::string four = page_of(4, true);
  EXPECT_TRUE(has(four, "<h2>Processes</h2>"));
  EXPECT_TRUE(has(four, "4 processes; 25.0 % of the steps"));
  EXPECT_TRUE(has(four, "Process 2 was the slowest most often, in 67 % of the steps"));
  EXPECT_TRUE(has(four, "2.33 s"))
      << "the mean seconds of the third process are not (3 + 3 + 1) / 3";
  EXPECT_TRUE(has(four, "2 of 2"));
  for (const char* chart : {"communication", "rank_seconds", "rank_load"})
    EXPECT_TRUE(has(four, std::string("<canvas id=\"") + chart)) << chart;
  const std::string many = page_of(64, false);
  EXPECT_TRUE(has(many, "Process 2 was the slowest most often"));
  EXPECT_FALSE(has(many, "of 64</td>"));
  EXPECT_FALSE(has(page_of(1, false), "Processes"));
}

TEST(RankFigures, AreOfTheLastNumberOfRanks) {
  RankReader reader;
  EXPECT_TRUE(reader.figures().empty());
  reader.add({{"ranks", 2}, {"step_seconds", 1}, {"communication_seconds", 1}}, "here");
  for (const double communication : {1, 3})
    reader.add({{"ranks", 4}, {"step_seconds", 4}, {"communication_seconds", communication}},
               "here");
  EXPECT_EQ(reader.figures().ranks, 4);
  EXPECT_EQ(reader.figures().communication, 0.5);
  reader.add({{"step", 9}}, "here");  // a line of a single process
  EXPECT_TRUE(reader.figures().empty());
}

TEST(RankFigures, AreOfTheLastWayToShareExperts) {
  RankReader reader;
  const auto add = [&](const std::vector<double>& load) {
    reader.add(
        {{"ranks", 4}, {"rank_load", {{"mean", 1}, {"max", 2}, {"rank", 0}, {"by_rank", load}}}},
        "here");
  };
  add({2, 0});
  add({1, 1, 1, 1});
  add({2, 1, 1, 0});
  EXPECT_EQ(reader.figures().load, (std::vector<double>{1.5, 1, 1, 0.5}));
}

TEST(RankFigures, OfADamagedLogAreRefused) {
  const auto seconds = [](nlohmann::json rank, const std::vector<double>& by_rank) {
    return nlohmann::json{{"mean", 1}, {"max", 2}, {"rank", rank}, {"by_rank", by_rank}};
  };
  const std::vector<nlohmann::json> damaged = {
      {{"ranks", 2}, {"rank_seconds", seconds(7, {})}},
      {{"ranks", 2.5}, {"rank_seconds", seconds(2, {})}},
      {{"ranks", 2}, {"rank_seconds", seconds(0.5, {})}},
      {{"ranks", 2}, {"rank_seconds", seconds(1, {1})}},
      {{"ranks", -1}},
  };
  for (const auto& line : damaged)
    EXPECT_THROW(RankReader().add(line, "metrics.jsonl:3"), Error) << line;
}

}  // namespace
}  // namespace penstock::study
