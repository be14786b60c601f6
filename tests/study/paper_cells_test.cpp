// The cells that the papers' studies show as published, against the papers' tables
// (paper_cells.txt). tables/closed_figures_test.cpp tests HyperRouter's Tables A3 and A4.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "penstock/io/toml.h"
#include "penstock/study/config/named_tables.h"
#include "tests/study/recipe_studies.h"

namespace penstock::study {
namespace {

using Cells = std::map<std::string, double>;  // by column

/// A table of a paper, with the file of the study that shows its cells.
struct PrintedTable {
  std::string study;
  std::vector<std::string> columns;
  std::map<std::string, Cells> rows;  ///< by variant
};

std::vector<PrintedTable> printed_tables() {
  std::vector<PrintedTable> out;
  std::ifstream file(std::string(PENSTOCK_SOURCE_DIR) + "/tests/study/paper_cells.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string first, word;
    words >> first;
    if (first == "study") {
      words >> out.emplace_back().study;
    } else if (first == "columns") {
      while (words >> word) out.back().columns.push_back(word);
    } else {
      Cells& row = out.back().rows[first];
      for (const std::string& column : out.back().columns) {
        EXPECT_TRUE(words >> word) << line;
        if (word != "-") row[column] = std::stod(word);
      }
      EXPECT_FALSE(words >> word) << line;
    }
  }
  return out;
}

TEST(PaperCells, AreThoseOfTheStudiesAtBothScales) {
  std::size_t cells = 0;
  for (const PrintedTable& table : printed_tables())
    for (const std::string scale : {"desk", "paper"}) {
      SCOPED_TRACE(table.study + " " + scale);
      const StudyConfig study = testing::recipe_study(table.study, scale);
      const auto& published = study.comparison.published;
      for (const auto& [variant, row] : table.rows) {
        ASSERT_TRUE(published.contains(variant)) << variant;
        Cells shown = published.at(variant);
        // A study that is like another also has the other's cells.
        if (!study.runs_of.empty())
          std::erase_if(shown, [&](const auto& cell) { return !row.contains(cell.first); });
        EXPECT_EQ(shown, row) << variant;
        cells += row.size();
      }
      if (study.runs_of.empty()) {
        EXPECT_EQ(published.size(), table.rows.size());
      }
    }
  EXPECT_GT(cells, 2 * 700u);
}

/// Each printed average of tasks is the mean of its cells, within a hundredth, but for one, which
/// recipes/router-upcycling/table3.toml names.
TEST(PaperCells, HaveTheAveragesThatArePrinted) {
  const std::set<std::string> no_tasks = {"result",  "loss",    "hours-1",
                                          "hours-2", "hours-3", "hours"};
  int rows = 0, others = 0;
  for (const PrintedTable& table : printed_tables())
    for (const auto& [variant, row] : table.rows) {
      if (!row.contains("result") || !row.contains("arc_easy")) continue;
      double sum = 0;
      int tasks = 0;
      for (const auto& [column, cell] : row) {
        if (no_tasks.contains(column)) continue;
        sum += cell;
        ++tasks;
      }
      EXPECT_EQ(tasks, table.study.starts_with("remoe/") ? 7 : 10) << table.study << variant;
      ++rows;
      if (table.study == "router-upcycling/table3" && variant == "max") {
        EXPECT_EQ(row.at("result"), 44.60);
        EXPECT_NEAR(sum / tasks, 42.003, 1e-9);
        ++others;
      } else {
        EXPECT_NEAR(sum / tasks, row.at("result"), 0.0101) << table.study << " " << variant;
      }
    }
  EXPECT_GT(rows, 70);
  EXPECT_EQ(others, 1);
}

/// HyperRouter's Table A2. The paper prints three numbers of epochs, all 3, for four data sets.
TEST(PaperCells, OfTableA2AreTheSettingsOfTheFineTunings) {
  const ConfigNode shown = read_toml(testing::recipe_path("hyperrouter/tableA2")),
                   run = read_toml(testing::recipe_path("hyperrouter/table3"));
  for (const std::string task : {"sst2", "sst5", "imdb", "banking77"}) {
    SCOPED_TRACE(task);
    Cells printed = {{"sequence_length", 512}, {"batch", task == "imdb" ? 4 : 16}, {"lr", 1e-4}};
    if (task != "banking77") printed["epochs"] = 3;
    const ConfigNode& own = *shown.find("finetune")->find(task);
    EXPECT_EQ(read_numbers(*own.find("published"), ""), printed);
    printed["epochs"] = 3;
    EXPECT_EQ(read_numbers(*own.find("set"), ""), printed);
    ConfigNode::Table settings = run.find("finetune")->find(task)->find("set")->table();
    settings.erase("test_k");
    EXPECT_EQ(read_numbers(ConfigNode(ConfigNode::Value(std::move(settings))), ""), printed);
  }
}

}  // namespace
}  // namespace penstock::study
