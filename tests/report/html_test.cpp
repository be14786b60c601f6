#include "penstock/report/html.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace penstock::study {
namespace {

TEST(Html, ScriptJsonCannotEndItsElement) {
  const std::string text = report::script_json({{"a", "</script><!--"}});
  EXPECT_EQ(text.find('<'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(text)["a"], "</script><!--");
  EXPECT_NO_THROW(report::script_json(nlohmann::json(std::string("\xff\xfe"))));
}

TEST(Html, HeatMapHasEveryNumber) {
  const std::string map = report::heat_map({.rows = {{"layer 0", {0.25, 0.5}, ""}},
                                            .columns = {"0", "1"},
                                            .max = 0.5,
                                            .scale = 100,
                                            .unit = " %"});
  EXPECT_NE(map.find("--v:0.500\" title=\"layer 0, 0: 25.0 %\">25</td>"), std::string::npos) << map;
  EXPECT_NE(map.find("class=\"high\" style=\"--v:1.000\""), std::string::npos) << map;
  EXPECT_EQ(map.find("<th></th>"), std::string::npos) << map;
}

TEST(Html, ScreenReadersGetTheTextsOfAMapWithManyColumns) {
  HeatMap map{.rows = {{"layer 0", std::vector<double>(64, 0.25), ""}},
              .max = 0.5,
              .scale = 100,
              .unit = " %"};
  for (int expert = 0; expert < 64; ++expert) map.columns.push_back(std::to_string(expert));
  const std::string html = report::heat_map(map);
  EXPECT_NE(html.find("class=\"heat crowded\""), std::string::npos);
  EXPECT_NE(html.find(">8</th>"), std::string::npos);
  EXPECT_NE(html.find("<span class=\"unseen\">9</span></th>"), std::string::npos);
  EXPECT_NE(html.find("<span class=\"unseen\">25</span></td>"), std::string::npos);
}

TEST(Html, AColumnWithoutATitleHasNoHeading) {
  const std::string html = report::table_html({.columns = {"", "value"}});
  EXPECT_NE(html.find("<td></td><th scope=\"col\">value</th>"), std::string::npos) << html;
}

}  // namespace
}  // namespace penstock::study
