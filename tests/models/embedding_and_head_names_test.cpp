#include "penstock/models/embedding_and_head_names.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/models/tiny_decoder.h"

namespace penstock {
namespace {

using Names = std::set<std::string>;

Names read_by_the_head_alone(const ModelConfig& config) {
  Names out;
  const auto model = make_model(config);
  for (const auto& parameter : model->named_parameters())
    if (only_head_reads(parameter.key())) out.insert(parameter.key());
  return out;
}

TEST(EndNames, TheHeadAloneReadsNoEmbeddingsThatAreTiedToIt) {
  ModelConfig config = testing::tiny_decoder("dense", 8);
  EXPECT_EQ(read_by_the_head_alone(config), Names{"lm_head"});
  config.tie_embeddings = true;
  EXPECT_EQ(read_by_the_head_alone(config), Names{});
}

TEST(EndNames, TheHeadAloneReadsTheTensorsOfClusters) {
  ModelConfig config = testing::tiny_decoder("dense", 8);
  config.architecture = ModelKind::transformer_xl;
  EXPECT_EQ(read_by_the_head_alone(config), Names{"head_bias"});
  config.xl.cutoffs = {5};
  EXPECT_EQ(read_by_the_head_alone(config), (Names{"head_bias", "cluster_weight", "cluster_bias"}));
}

}  // namespace
}  // namespace penstock
