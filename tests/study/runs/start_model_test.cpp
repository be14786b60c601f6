// The study's error if a run's model cannot be upcycled as its file asks.
#include "penstock/study/runs/start_model.h"

#include <gtest/gtest.h>

#include "penstock/base/error.h"
#include "penstock/io/toml.h"
#include "tests/convert/tiny_parent.h"
#include "tests/study/fixture.h"

namespace penstock::study {
namespace {

TEST(StartModel, ErrorsOfUpcyclingNameTheKeysOfTheStudy) {
  const testing::TemporaryDirectory folder;
  penstock::testing::write_parent(folder.path("dense"), penstock::testing::tiny_config());
  const auto refusal = [&](const std::string& keys) {
    const ConfigNode upcycle = parse_toml("method = \"vanilla\"\n" + keys, "s.toml");
    const ConfigNode recipe = parse_toml(
        "[data]\ncorpus = \"corpus\"\n[model.router]\nmethod = \"dense\"\n[run]\nthreads = 1",
        "r.toml");
    try {
      begin_with(folder.path("dense"), upcycle, recipe, folder.path("moe"), folder.path("keys"),
                 /*force=*/false, nullptr);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("made");
  };
  EXPECT_EQ(refusal("experts = 8\nk = 9"),
            "s.toml:3: upcycle.k = 9 is above upcycle.experts = 8 "
            "(upcycle.experts: s.toml:2)");
  EXPECT_NE(refusal("correct_gain = true").find("and upcycle.correct_gain are for"),
            std::string::npos);
  EXPECT_NE(refusal("lr_scale = 0").find("lr_scale = 0 is out of range"), std::string::npos);
}

}  // namespace
}  // namespace penstock::study
