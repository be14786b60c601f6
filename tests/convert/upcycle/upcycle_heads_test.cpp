// Routers made from a parent's attention heads with non-default rules: query maps corrected for the
// norm's gain, and keys of duplicated heads.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "penstock/base/error.h"
#include "penstock/convert/sample_windows.h"
#include "penstock/convert/upcycle/calibration.h"
#include "penstock/convert/upcycle/upcycle.h"
#include "penstock/io/config_json.h"
#include "penstock/models/files/open_model.h"
#include "tests/convert/upcycle/upcycle_fixture.h"

namespace penstock {
namespace {

using UpcycleHeads = testing::UpcycleTest;

using testing::difference;

/// The corrected maps, applied to the output of the experts' norm, give the queries that W_Q gives
/// for the same row after attention's norm.
TEST_F(UpcycleHeads, QueryMapsAreCorrectedForTheNormsGain) {
  UpcycleOptions how = options("router-upcycling");
  how.correct_gain = true;
  make(how);
  const auto dense = open_model_source(path("dense")), moe = open_model_source(path("out"));
  const std::string stem = "model.layers.1.";
  const at::Tensor row = torch::randn({32});
  const at::Tensor attention = row * dense->tensor(stem + "input_layernorm.weight");
  const at::Tensor experts = row * dense->tensor(stem + "post_attention_layernorm.weight");
  const at::Tensor queries = moe->tensor(stem + "mlp.router.scorer.queries");  // [8, 4, 32]
  const at::Tensor weight = dense->tensor(stem + "self_attn.q_proj.weight").view({8, 4, 32});
  EXPECT_LT(difference(queries.matmul(experts), weight.matmul(attention)), 1e-5);
  EXPECT_GT(difference(queries.matmul(attention), weight.matmul(attention)), 1e-2);
}

/// m = 4 of 8 heads and 8 keys: each head occurs twice, so each key is a head and its copy.
TEST_F(UpcycleHeads, KeysOfDuplicatedHeadsWhereReadLiterally) {
  UpcycleOptions how = options("router-upcycling");
  how.routers = 4;
  how.grouping = KeyGrouping::literal;
  make(how);
  const auto dense = open_model_source(path("dense")), moe = open_model_source(path("out"));
  const auto keys = mean_keys(*dense, sample_windows(path("text"), *dense, {}), {});
  const at::Tensor made = moe->tensor("model.layers.0.mlp.router.scorer.keys");  // [8, 8]
  for (std::int64_t i = 0; i < 8; ++i)
    for (std::int64_t copy = 0; copy < 2; ++copy)
      EXPECT_LT(difference(made[i].narrow(0, copy * 4, 4), keys[0][i]), 1e-7);
  EXPECT_EQ(report_.tied, (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(read_json(path("out/upcycling.json"))["calibration"]["grouping"], "literal");
  how = options("vanilla");
  how.grouping = KeyGrouping::literal;
  EXPECT_THROW(make(how, "none"), Error);
}

/// Progress reports: each stage starts at 0 and rises, and an exception leaves no output.
TEST_F(UpcycleHeads, TellHowFarTheyAre) {
  UpcycleOptions how = options("router-upcycling");
  how.start = UpcycleStart::parent;
  std::vector<std::string> stages;
  double before = 0;
  const auto told = [&](std::string_view what, double done) {
    if (stages.empty() || stages.back() != what) {
      stages.emplace_back(what);
      EXPECT_EQ(done, 0) << what;
    } else {
      EXPECT_GT(done, before) << what;
    }
    EXPECT_LT(done, 1) << what;
    before = done;
  };
  const auto dense = open_model_source(path("dense"));
  upcycle(*dense, how, real_file_system(), path("out"), {}, told);
  ASSERT_GE(stages.size(), 3u);
  EXPECT_EQ(stages.front(), "keys over the text");
  EXPECT_EQ(stages[1], "routers of heads");
  EXPECT_EQ(stages.back(), "writing");
  struct Stop {};
  const auto stop = [](std::string_view what, double done) {
    if (what == "writing" && done > 0.5) throw Stop();
  };
  EXPECT_THROW(upcycle(*dense, how, real_file_system(), path("stopped"), {}, stop), Stop);
  EXPECT_FALSE(std::filesystem::exists(path("stopped")));
}

}  // namespace
}  // namespace penstock
