#include "penstock/io/config_json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

TEST(ConfigJson, GoesToANodeAndBack) {
  const nlohmann::json object = {{"flag", true}, {"count", -3},    {"share", 0.25},
                                 {"name", "a"},  {"list", {1, 2}}, {"table", {{"inner", 7}}}};
  EXPECT_EQ(to_json(config_from_json(object, "here")), object);
  EXPECT_EQ(config_from_json(object, "here").find("count")->origin(), "here");
  EXPECT_TRUE(to_json(config_from_json({{"none", nullptr}}, "here")).empty());
}

TEST(ConfigJson, WhatCannotBeReadIsRefusedWithTheFile) {
  const testing::TempDirectory folder;
  const std::string path = folder.path("config.json");
  const auto refusal = [&](const std::string& text) {
    std::ofstream(path) << text;
    return testing::error_of([&] { read_json(path); });
  };
  EXPECT_TRUE(refusal("{\"a\": ").starts_with(path + ": not valid JSON; "));
  EXPECT_EQ(refusal(std::string(1000, '[')), path + ": nested deeper than 200 levels");
  EXPECT_EQ(testing::error_of([&] { read_json(path + "x"); }),
            path + "x: cannot be opened; check the path");
}

TEST(ConfigJson, ANumberThatNoWholeNumberHoldsIsNone) {
  const auto value_of = [](const char* text) {
    return config_from_json(nlohmann::json::parse(text), "here").value();
  };
  EXPECT_EQ(std::get<std::int64_t>(value_of("9223372036854775807")), INT64_MAX);
  EXPECT_EQ(std::get<std::int64_t>(value_of("-9223372036854775808")), INT64_MIN);
  EXPECT_EQ(std::get<double>(value_of("9223372036854775808")), 0x1p63);
  EXPECT_EQ(std::get<double>(value_of("18446744073709551615")), 0x1p64);
}

}  // namespace
}  // namespace penstock
