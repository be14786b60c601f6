// The predicted size of an upcycling equals the size that it then takes.
#include "penstock/convert/upcycle/upcycled_size.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "penstock/convert/upcycle/upcycled_config.h"
#include "tests/base/error_of.h"
#include "tests/convert/upcycle/upcycle_fixture.h"

namespace penstock {
namespace {

using UpcycledSizeTest = testing::UpcycleTest;

constexpr double kMebibyte = 1 << 20, kPlenty = 1e18;

std::string refusal(const UpcycledSize& size, const UpcyclingRoom& room,
                    const ModelConfig& config) {
  return testing::error_or("", [&] { check_upcycled_size(size, room, config, "moe"); });
}

TEST_F(UpcycledSizeTest, IsThatOfTheFile) {
  const auto parent = open_model_source(path("dense"));
  for (const std::string& method : testing::kUpcycleMethods)
    for (const auto dtype : {std::optional<UpcycleDtype>(), std::optional(UpcycleDtype::bf16)}) {
      UpcycleOptions how = completed(options(method));
      how.dtype = dtype;
      how.shared_width = 8;
      TensorOrigins origins(*parent, how);
      const UpcycledSize size = upcycled_size(upcycled_config(parent->config(), how), origins);
      std::filesystem::remove_all(path("out"));
      make(how);
      const auto file = static_cast<double>(report_.bytes);  // includes the header
      EXPECT_LE(size.file_bytes, file) << method;
      EXPECT_GT(size.file_bytes, 0.8 * file) << method;
      EXPECT_EQ(size.tensors, open_model_source(path("out"))->names().size()) << method;
    }
}

TEST_F(UpcycledSizeTest, IsRefusedWhereThereIsNoRoom) {
  ModelConfig config;
  config.moe.experts = 65536;
  const UpcycledSize size{
      .file_bytes = 600 * kMebibyte, .memory_bytes = 3000 * kMebibyte, .tensors = 1572864};
  EXPECT_EQ(refusal(size, {.memory = kPlenty, .disk = kPlenty}, config), "");
  EXPECT_EQ(
      refusal(size, {.memory = kPlenty, .disk = 500 * kMebibyte}, config),
      "options.experts = 65536: the model takes 600 MiB and the disk of moe has 500 MiB free; "
      "ask for fewer experts, write it to another disk, or try it all the same with options.force");
  config.moe.granularity = 2;
  EXPECT_EQ(refusal(size, {.memory = 1024 * kMebibyte, .disk = kPlenty}, config),
            "options.experts = 65536, options.granularity = 2: writing the model's 1572864 tensors "
            "takes about 2.9 GiB of memory and this machine has 1.0 GiB free; ask for fewer "
            "experts, or try it all the same with options.force");
}

TEST_F(UpcycledSizeTest, WhatDoesNotFitIsToldByTheOptionsThatGaveIt) {
  const auto error = [&](auto change) {
    UpcycleOptions how = options("vanilla");
    change(how);
    return testing::error_or("made", [&] { make(how); });
  };
  EXPECT_EQ(error([](UpcycleOptions& how) { how.k = 9; }),
            "options.k = 9 is above options.experts = 8");
  EXPECT_EQ(error([](UpcycleOptions& how) { how.granularity = 7; }),
            "options.granularity = 7 is not a divisor of model.d_ffn = 24");
  EXPECT_EQ(error([](UpcycleOptions& how) { how.experts = 65537; }),
            "options.experts = 65537 is out of range; it must be 0 to 65536");
  EXPECT_TRUE(error([](UpcycleOptions& how) {
                how.shared_width = 1LL << 40;
              }).starts_with("options.shared_width = 1099511627776 is out of range"));
  EXPECT_NE(error([](UpcycleOptions& how) {
              how.correct_gain = true;
            }).find("options.grouping and options.correct_gain are for Router Upcycling"),
            std::string::npos);
  EXPECT_EQ(error([](UpcycleOptions& how) { how.router_options.set("k", 9); }),
            "model.router.k = 9 is above options.experts = 8");
}

}  // namespace
}  // namespace penstock
