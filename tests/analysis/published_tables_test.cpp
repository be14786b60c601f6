// The closed forms against the paper's cells and against FLOPs counted by hand.
#include "penstock/analysis/published_tables.h"

#include <gtest/gtest.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/io/toml.h"
#include "penstock/models/counts/evaluation_flops.h"
#include "penstock/models/counts/parameter_count.h"
#include "penstock/train/read_recipe.h"

namespace penstock::analysis {
namespace {

const PublishedCell& cell(const PublishedTable& table, const std::string& row,
                          const std::string& column) {
  for (const PublishedCell& one : table.cells)
    if (one.row == row && one.column == column) return one;
  throw Error("no cell " + row + ", " + column);
}

TEST(PublishedTables, FlopsWithoutExpertsAreThoseCountedByHand) {
  // q, k and v of 10 x 1024 positions, 1024 distances, 1280 outputs, and the router, four layers.
  const double by_hand =
      2.0 * 4 *
      (10 * 1024 * 256.0 * 1536 + 1024 * 256.0 * 512 + 1280 * 512.0 * 256 + 1280 * 256.0 * 16);
  EvaluationWork work{.sequences = 10, .length = 128, .memory = 896, .queries_of_memory = true};
  EXPECT_EQ(linear_layer_flops(published_small("smoe"), work), by_hand);
  EXPECT_EQ(by_hand, 34670116864.0);
  work.active_experts = 1;
  EXPECT_EQ(linear_layer_flops(published_small("hyperrouter"), work) - by_hand,
            2.0 * 4 * 1280 * 2 * 256 * 512);
  // A decoder: 6 tokens; q and output of 16 x 16, k and v of 16 x 8, three matrices of 16 x 24.
  const ModelConfig decoder =
      ModelConfig{.vocab = 32, .d_model = 16, .layers = 2, .heads = 4, .kv_heads = 2, .d_ffn = 24}
          .resolved();
  EXPECT_EQ(linear_layer_flops(decoder, {.sequences = 2, .length = 3}),
            2.0 * 2 * 6 * (2 * 16 * 16 + 2 * 16 * 8 + 3 * 16 * 24));
}

TEST(PublishedTables, A3AgreesWhereThePaperIsRight) {
  const PublishedTable table = published_table("A3");
  EXPECT_EQ(table.cells.size(), 4 * 3 + 6u);
  for (const char* method : {"SMoE", "SMoE-Dropout", "HyperRouter"}) {
    for (const int k : {1, 2, 4, 8, 16}) {
      const PublishedCell& one = cell(table, "k = " + std::to_string(k), method);
      EXPECT_NEAR(one.computed, 3.4670 + 0.26844 * k, 1e-4);
      EXPECT_EQ(one.agrees, k == 2 || k == 4 || k == 8);
      EXPECT_EQ(one.remark.empty(), one.agrees);
      EXPECT_LT(one.useful, one.computed);
    }
    EXPECT_EQ(cell(table, "k = 2", method).published, 4.00);
    EXPECT_EQ(cell(table, "k = 4", method).published, 4.54);
    EXPECT_EQ(cell(table, "k = 8", method).published, 5.61);
    EXPECT_NEAR(cell(table, "k = 1", method).computed, 3.74, 0.005);
    EXPECT_NEAR(cell(table, "k = 16", method).computed, 7.76, 0.005);
  }
  EXPECT_TRUE(cell(table, "all", "Dense").agrees);
  EXPECT_FALSE(cell(table, "k = 16", "THOR").agrees);
}

TEST(PublishedTables, A4CountsWhatTheAuthorsCodeBuilds) {
  const PublishedTable table = published_table("A4");
  const auto count = [&](const char* row, const char* column) {
    return std::llround(1000 * cell(table, row, column).computed);
  };
  EXPECT_EQ(count("HyperRouter", "Transformer"), 19505356);
  EXPECT_EQ(count("SMoE-Dropout", "Transformer"), 19505356);
  EXPECT_EQ(count("HyperRouter", "Router"), 16448);
  EXPECT_EQ(count("SMoE-Dropout", "Router"), 16448);
  EXPECT_EQ(count("HyperRouter", "Router Emb."), 1024);
  EXPECT_EQ(count("HyperRouter", "HyperNetwork"), 4 * 1122576);
  int agreeing = 0;
  for (const PublishedCell& one : table.cells) agreeing += one.agrees;
  EXPECT_EQ(agreeing, 3);
  EXPECT_THROW(published_table("A9"), Error);
}

TEST(PublishedTables, TheBuiltInSettingIsTheRecipes) {
  const std::string folder = PENSTOCK_SOURCE_DIR "/recipes/hyperrouter/";
  for (const char* method : {"smoe", "dense"}) {
    Recipe recipe = read_recipe(read_toml(folder + method + "-small.toml"));
    recipe.model.vocab = 204;
    const ModelConfig built_in = published_small(method);
    EXPECT_EQ(count_parameters(recipe.model).total, count_parameters(built_in).total);
    const EvaluationWork work{.sequences = 10, .length = 128, .memory = 896, .active_experts = 3};
    EXPECT_EQ(linear_layer_flops(recipe.model, work), linear_layer_flops(built_in, work));
  }
}

}  // namespace
}  // namespace penstock::analysis
