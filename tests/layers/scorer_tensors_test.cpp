#include "penstock/layers/scorer_tensors.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace penstock {
namespace {

TEST(ScorerTensors, AreKnownByTheNamesThatFilesHave) {
  EXPECT_EQ(scorer_tensor_name("weight"), "gate.weight");
  EXPECT_EQ(scorer_tensor_name("bias"), "router.scorer.bias");
  for (const char* const key : {"weight", "bias", "network.w1"})
    EXPECT_EQ(scorer_parameter(scorer_tensor_name(key)), key);
  for (const char* const other : {"gate_proj.weight", "shared_expert_gate.weight", "gate.bias", ""})
    EXPECT_FALSE(scorer_parameter(other)) << other;
}

}  // namespace
}  // namespace penstock
