#include "penstock/io/readable_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "penstock/base/json_text.h"

namespace penstock {
namespace {

using nlohmann::json;

TEST(JsonText, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(json_text(json{{"a", "b\xff"}}), "{\"a\":\"b\xEF\xBF\xBD\"}");
  EXPECT_EQ(json_text(nlohmann::ordered_json{{"b", 1}, {"a", 2}}, 1),
            "{\n \"b\": 1,\n \"a\": 2\n}");
}

TEST(JsonText, PutsAnArrayOfPlainValuesOnOneLine) {
  json value = json::parse(R"({"curve": [1.0, 0.1, null], "load": [[1, 2], [3, 4]], "none": {},
                               "rows": [{"a": 1}], "empty": []})");
  EXPECT_EQ(readable_text(value), R"({
 "curve": [1.0,0.1,null],
 "empty": [],
 "load": [
  [1,2],
  [3,4]
 ],
 "none": {},
 "rows": [
  {
   "a": 1
  }
 ]
}
)");
}

TEST(JsonText, ReadsBackToTheSame) {
  json value;
  value["a"] = {0.1 + 0.2, 1e-300, -0.0, 1.0};
  value["b\n\""]["c"] = 1.0;
  EXPECT_EQ(json::parse(readable_text(value)), value);
  EXPECT_EQ(readable_text(3), "3\n");
  EXPECT_EQ(readable_text("x\xff"), "\"x\xef\xbf\xbd\"\n");
}

}  // namespace
}  // namespace penstock
