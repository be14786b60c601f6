#include "penstock/convert/export/certificate.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace penstock {
namespace {

/// Two layers, one token, two experts. Each layer chooses expert 0; its logit leads by `first_lead`
/// or `second_lead`.
Observed observed(double first_lead, double second_lead) {
  const auto layer = [](double lead) { return torch::tensor({{1.0 + lead, 1.0}}, at::kFloat); };
  const at::Tensor chosen = torch::tensor({{true, false}});
  return {.logits = torch::tensor({{0.5, 2.0}}, at::kFloat),
          .chosen = {chosen, chosen},
          .router = {layer(first_lead), layer(second_lead)}};
}

TEST(Certificate, AnotherExpertIsExcusedByATieInTheFirstLayerThatDiffers) {
  const at::Tensor other = torch::tensor({{false, true}});
  const Observed tied = observed(1e-6, 0.5), clear = observed(0.5, 1e-6);
  EXPECT_EQ(compare(tied, tied).same_experts, 1);
  EXPECT_EQ(compare(tied, tied).differ_beyond_ties, 0);
  Observed changed = tied;
  changed.chosen[0] = other;
  changed.chosen[1] = other;  // not a tie, but changed by the layer below
  EXPECT_EQ(compare(tied, changed).same_experts, 0);
  EXPECT_EQ(compare(tied, changed).differ_beyond_ties, 0);
  changed = clear;
  changed.chosen[0] = other;
  EXPECT_EQ(compare(clear, changed).same_experts, 0.5);
  EXPECT_EQ(compare(clear, changed).differ_beyond_ties, 1);
}

}  // namespace
}  // namespace penstock
