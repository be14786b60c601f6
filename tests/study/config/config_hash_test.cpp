// The hash that tells a study's fine-tunings apart. study_config_test tests the hashes of recipes.
#include "penstock/study/config/config_hash.h"

#include <gtest/gtest.h>

namespace penstock::study {
namespace {

TEST(FinetuningHash, AKeyThatCameLaterLeavesEarlierHashesAsTheyWere) {
  ConfigNode node;
  node.set("seed", 1);
  // FNV-1a, by a short Python script, of "sst2", "final" and the lines KEY = DEFAULT of the 31 keys
  // that existed before `decay`.
  EXPECT_EQ(finetuning_hash(read_finetune_config(node), "sst2", "final"), "c372e16bb8143d82");
  node.set("decay", "coupled");
  EXPECT_NE(finetuning_hash(read_finetune_config(node), "sst2", "final"), "c372e16bb8143d82");
  node.set("decay", "decoupled");
  node.set("precision", "bf16");
  const std::string rounded = finetuning_hash(read_finetune_config(node), "sst2", "final");
  EXPECT_NE(rounded, "c372e16bb8143d82");
  ConfigNode halves;
  halves.set("seed", 1);
  halves.set("moments", "bf16");
  EXPECT_NE(finetuning_hash(read_finetune_config(halves), "sst2", "final"), "c372e16bb8143d82");
  node.set("emulate_bf16", true);  // the same arithmetic
  EXPECT_EQ(finetuning_hash(read_finetune_config(node), "sst2", "final"), rounded);
}

}  // namespace
}  // namespace penstock::study
